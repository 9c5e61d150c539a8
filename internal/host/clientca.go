package host

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/request"
)

var errNoCertificate = errors.New("it contains no PEM certificate")

// clientCA authenticates users by client certificates of the server's own CA, which
// issues the administrator's, and of --client-ca-file.
type clientCA struct{ now atomic.Pointer[clientCAs] }

// clientCAs are the CA certificates of clients. It is immutable.
type clientCAs struct {
	certificates *authn.Certificates
	bundle       []byte // in PEM
}

// Authenticate implements authn.Authenticator.
func (u *clientCA) Authenticate(r *http.Request) (*request.Authentication, error) {
	return u.now.Load().certificates.Authenticate(r)
}

// openClientCA loads the CA certificates of clients.
func (h *Host) openClientCA() error {
	h.clientCA = &clientCA{}
	own := h.authority.Bundle()
	if h.config.ClientCAFile == "" {
		h.clientCA.now.Store(&clientCAs{h.certificatesOf(h.authority.Pool()), own})
		return nil
	}
	return h.reloader.add("--client-ca-file", func(contents [][]byte) error {
		pool := h.authority.Pool()
		if !pool.AppendCertsFromPEM(contents[0]) {
			return errNoCertificate
		}
		// A new value makes clients on open connections authenticate again.
		h.clientCA.now.Store(&clientCAs{h.certificatesOf(pool), slices.Concat(own, []byte("\n"), contents[0])})
		return nil
	}, h.config.ClientCAFile)
}

// certificatesOf returns the authenticator of certificates of some authorities.
func (h *Host) certificatesOf(authorities *x509.CertPool) *authn.Certificates {
	return &authn.Certificates{Authorities: authorities, Expiration: h.env.Telemetry.Metrics.Security.Authentication.Expiration()}
}

// clientAuthorities returns the CA certificates that the TLS handshake names to
// clients.
func (h *Host) clientAuthorities() *x509.CertPool {
	pool := h.clientCA.now.Load().certificates.Authorities.Clone()
	pool.AppendCertsFromPEM(h.frontProxy.now.Load().bundle)
	return pool
}

// reloadFiles reloads changed files, and updates their dependents: the TLS configuration, the
// published cluster authentication and the kubeconfig.
func (h *Host) reloadFiles(base *tls.Config) error {
	if !h.reloader.reload() {
		return nil
	}
	// Clients choose a certificate by the CA names of the handshake.
	next := base.Clone()
	next.ClientCAs = h.clientAuthorities()
	h.handshake.Store(next)
	return errors.Join(h.each((*controlplane.ControlPlane).IdentityChanged), h.renew())
}

// clusterAuthentication returns the data of the ConfigMap
// extension-apiserver-authentication.
func (h *Host) clusterAuthentication() (map[string]string, error) {
	proxies := h.frontProxy.now.Load()
	headers := proxies.headers
	data := map[string]string{
		"client-ca-file":               string(h.clientCA.now.Load().bundle),
		"requestheader-client-ca-file": string(proxies.bundle),
	}
	for key, names := range map[string][]string{
		"requestheader-allowed-names": headers.AllowedNames, "requestheader-username-headers": headers.UserHeaders,
		"requestheader-uid-headers": headers.UIDHeaders, "requestheader-group-headers": headers.GroupHeaders,
		"requestheader-extra-headers-prefix": headers.ExtraPrefixes,
	} {
		encoded, err := json.Marshal(append([]string{}, names...))
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", key, err)
		}
		data[key] = string(encoded)
	}
	return data, nil
}
