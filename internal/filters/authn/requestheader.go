package authn

import (
	"context"
	"crypto/x509"
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

// RequestHeaders authenticates users in the headers of a front proxy, which is authenticated by its
// client certificate. Headers of other clients are ignored. Header names have canonical form. The
// headers are removed from every request, so that later handlers cannot use them.
type RequestHeaders struct {
	// Authorities sign certificates of front proxies.
	Authorities *x509.CertPool
	// AllowedNames are the common names of front proxies; empty allows all.
	AllowedNames []string
	// UserHeaders contain the user's name, and UIDHeaders the UID: the first nonempty one applies.
	// All GroupHeaders contain groups. The part of a header name after one of ExtraPrefixes is a
	// key of extra.
	UserHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
}

// proxied is that the other end of a connection is a front proxy.
type proxied struct {
	by    *RequestHeaders
	until time.Time
}

// Authenticate implements Authenticator.
func (h *RequestHeaders) Authenticate(r *http.Request) (*request.Authentication, error) {
	user := h.take(r.Header)
	if user.Name == "" || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	at, _ := r.Context().Value(connKey{}).(*conn)
	if at != nil {
		if p := at.proxied.Load(); p != nil && p.by == h && simulation.From(r.Context()).Shifted().Before(p.until) {
			return byProxy(user), nil
		}
	}
	until, err := h.verify(r.Context(), r.TLS.PeerCertificates)
	if err != nil {
		return nil, fmt.Errorf("front proxy: %w: %w", ErrUnauthorized, err)
	}
	if at != nil {
		at.proxied.Store(&proxied{h, until})
	}
	return byProxy(user), nil
}

func byProxy(user *request.User) *request.Authentication {
	return &request.Authentication{User: authenticated(user), Credential: request.CredentialFrontProxy}
}

func (h *RequestHeaders) verify(ctx context.Context, certs []*x509.Certificate) (until time.Time, err error) {
	chains, err := verifyClient(ctx, h.Authorities, certs)
	if err != nil {
		return time.Time{}, err
	}
	if name := certs[0].Subject.CommonName; len(h.AllowedNames) > 0 && !slices.Contains(h.AllowedNames, name) {
		return time.Time{}, fmt.Errorf("x509: subject with cn=%s is not in the allowed list", name)
	}
	return lastEnd(chains), nil
}

// take returns the user of a request's header, and removes the headers.
func (h *RequestHeaders) take(header http.Header) *request.User {
	user := &request.User{Name: first(header, h.UserHeaders), UID: first(header, h.UIDHeaders)}
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
	h.strip(header)
	return user
}

// strip removes the headers of the configuration, in every spelling that a backend may
// take for one of them.
func (h *RequestHeaders) strip(header http.Header) {
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

func first(header http.Header, names []string) string {
	for _, name := range names {
		if values := header[name]; len(values) > 0 && values[0] != "" {
			return values[0]
		}
	}
	return ""
}

// ExtraKey decodes a key of extra in a header name, which is case-insensitive, with
// percent-encoding. Invalid escapes are preserved.
func ExtraKey(escaped string) string {
	lower := strings.ToLower(escaped)
	if key, err := url.PathUnescape(lower); err == nil {
		return key
	}
	return lower
}

// HeaderNames returns canonical header names, or an error with the invalid one.
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
