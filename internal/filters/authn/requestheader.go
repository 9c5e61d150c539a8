package authn

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/simulation"
)

// RequestHeaders authenticates the users that a front proxy names in request headers. The proxy is
// authenticated by its client certificate. All configured header names must be canonical (see
// HeaderNames). The headers are removed from every request, so that later handlers cannot use them.
// The fields must not be modified after the first request. RequestHeaders is safe for concurrent
// use.
type RequestHeaders struct {
	// Authorities are the authorities that sign the certificates of front proxies.
	Authorities *x509.CertPool
	// AllowedNames are the accepted common names of front proxies. An empty list accepts all names.
	AllowedNames []string
	// UserHeaders and UIDHeaders are the names of the headers with the user name and the UID. The
	// first nonempty header applies. GroupHeaders are the names of the headers with groups. All of
	// them apply. ExtraPrefixes are prefixes of header names; the rest of such a header name is a
	// key of the user's extra attributes.
	UserHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
}

// FrontProxyClient is the user name in the client certificate that this server uses for connections to
// aggregated servers.
const FrontProxyClient = "front-proxy-client"

// DefaultRequestHeaders returns a RequestHeaders for the headers that kube-apiserver sends to aggregated
// servers. The headers are accepted only from clients with the name FrontProxyClient. The caller must set
// Authorities.
func DefaultRequestHeaders() *RequestHeaders {
	return &RequestHeaders{
		AllowedNames: []string{FrontProxyClient}, UserHeaders: []string{"X-Remote-User"}, UIDHeaders: []string{"X-Remote-Uid"},
		GroupHeaders: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"},
	}
}

// ClusterAuthentication returns the data of the ConfigMap kube-system/extension-apiserver-authentication, with
// which aggregated servers authenticate clients. clients and proxies are the CA certificates for users and for
// front proxies, in PEM. The caller owns the result. ClusterAuthentication returns an error only if the JSON
// encoding fails, which does not happen for strings.
func (h *RequestHeaders) ClusterAuthentication(clients, proxies []byte) (map[string]string, error) {
	data := map[string]string{"client-ca-file": string(clients), "requestheader-client-ca-file": string(proxies)}
	for key, names := range map[string][]string{
		"requestheader-allowed-names": h.AllowedNames, "requestheader-username-headers": h.UserHeaders,
		"requestheader-uid-headers": h.UIDHeaders, "requestheader-group-headers": h.GroupHeaders,
		"requestheader-extra-headers-prefix": h.ExtraPrefixes,
	} {
		encoded, err := json.Marshal(append([]string{}, names...))
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", key, err)
		}
		data[key] = string(encoded)
	}
	return data, nil
}

// verifiedProxy is the result of a successful verification of a front proxy's certificate.
type verifiedProxy struct {
	by    *RequestHeaders
	until time.Time
}

// Authenticate implements Authenticator.
func (h *RequestHeaders) Authenticate(r *http.Request) (*request.Authentication, error) {
	user := h.extractUser(r.Header)
	if user.Name == "" || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	at, _ := r.Context().Value(connKey{}).(*conn)
	if at != nil {
		if p := at.proxied.Load(); p != nil && p.by == h && simulation.From(r.Context()).Shifted().Before(p.until) {
			return proxyAuthentication(user), nil
		}
	}
	until, err := h.verify(r.Context(), r.TLS.PeerCertificates)
	if err != nil {
		return nil, fmt.Errorf("front proxy: %w: %w", ErrUnauthorized, err)
	}
	if at != nil {
		at.proxied.Store(&verifiedProxy{h, until})
	}
	return proxyAuthentication(user), nil
}

func proxyAuthentication(user *request.User) *request.Authentication {
	return &request.Authentication{User: addAuthenticatedGroup(user), Credential: request.CredentialFrontProxy}
}

func (h *RequestHeaders) verify(ctx context.Context, certs []*x509.Certificate) (until time.Time, err error) {
	chains, err := verifyClient(ctx, h.Authorities, certs)
	if err != nil {
		return time.Time{}, err
	}
	if name := certs[0].Subject.CommonName; len(h.AllowedNames) > 0 && !slices.Contains(h.AllowedNames, name) {
		return time.Time{}, fmt.Errorf("x509: subject with cn=%s is not in the allowed list", name)
	}
	return latestExpiry(chains), nil
}

// extractUser returns the user that the request headers describe, and removes these headers. The
// user's name is empty if no header names a user.
func (h *RequestHeaders) extractUser(header http.Header) *request.User {
	user := &request.User{Name: firstValue(header, h.UserHeaders), UID: firstValue(header, h.UIDHeaders)}
	for _, name := range h.GroupHeaders {
		for _, group := range header[name] {
			if group != "" {
				user.Groups = append(user.Groups, group)
			}
		}
	}
	for _, prefix := range h.ExtraPrefixes {
		for name, values := range header {
			if len(name) < len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
				continue
			}
			if user.Extra == nil {
				user.Extra = map[string][]string{}
			}
			key := ExtraKey(name[len(prefix):])
			user.Extra[key] = append(user.Extra[key], values...)
		}
	}
	h.removeHeaders(header)
	return user
}

// removeHeaders removes the configured headers, in all spellings that a backend may treat as the same name.
func (h *RequestHeaders) removeHeaders(header http.Header) {
	for name := range header {
		normalized := request.NormalizeHeader(name)
		for _, names := range [][]string{h.UserHeaders, h.UIDHeaders, h.GroupHeaders} {
			for _, configured := range names {
				if normalized == request.NormalizeHeader(configured) {
					delete(header, name)
				}
			}
		}
		for _, prefix := range h.ExtraPrefixes {
			if strings.HasPrefix(normalized, request.NormalizeHeader(prefix)) {
				delete(header, name)
			}
		}
	}
}

// removeDefaultHeaders removes the headers of DefaultRequestHeaders, in the same spellings as removeHeaders.
func removeDefaultHeaders(header http.Header) {
	for name := range header {
		if name == "" || name[0] != 'X' && name[0] != 'x' {
			continue
		}
		switch normalized := request.NormalizeHeader(name); {
		case normalized == "x-remote-user", normalized == "x-remote-uid", normalized == "x-remote-group", strings.HasPrefix(normalized, "x-remote-extra-"):
			delete(header, name)
		}
	}
}

func firstValue(header http.Header, names []string) string {
	for _, name := range names {
		if values := header[name]; len(values) > 0 && values[0] != "" {
			return values[0]
		}
	}
	return ""
}

// ExtraKey decodes a key of the extra attributes from a part of a header name. It converts the text
// to lower case and then decodes percent-encoding. A key with an invalid percent-encoding is only
// converted to lower case.
func ExtraKey(escaped string) string {
	lower := strings.ToLower(escaped)
	if key, err := url.PathUnescape(lower); err == nil {
		return key
	}
	return lower
}

// HeaderNames returns the canonical forms of header names in a new slice, without surrounding
// spaces. It returns an error if a name is empty.
func HeaderNames(names []string) ([]string, error) {
	var canonical []string
	for _, name := range names {
		name = strings.TrimSpace(name)
		if name == "" {
			return nil, errors.New("empty header name")
		}
		canonical = append(canonical, textproto.CanonicalMIMEHeaderKey(name))
	}
	return canonical, nil
}
