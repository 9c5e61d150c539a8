package server

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"mainstay.dev/mainstay/controlplane"
	"mainstay.dev/mainstay/filters/authn"
	"mainstay.dev/mainstay/request"
)

var errNoCertificate = errors.New("it holds no PEM certificate")

// clientCA are known by certificates of the server's own authority, by which the
// administrator is, and of those of --client-ca-file.
type clientCA struct{ now atomic.Pointer[clientCAs] }

// clientCAs are the authorities that may sign users.
type clientCAs struct {
	certificates *authn.Certificates
	bundle       []byte // in PEM
}

// Authenticate implements authn.Authenticator.
func (u *clientCA) Authenticate(r *http.Request) (*request.User, error) {
	return u.now.Load().certificates.Authenticate(r)
}

// openClientCA reads which authorities may sign users.
func (h *Host) openClientCA() error {
	h.clientCA = &clientCA{}
	own := h.authority.Bundle()
	if h.config.ClientCAFile == "" {
		h.clientCA.now.Store(&clientCAs{&authn.Certificates{Authorities: h.authority.Pool()}, own})
		return nil
	}
	return h.reloader.add("--client-ca-file", func(contents [][]byte) error {
		pool := h.authority.Pool()
		if !pool.AppendCertsFromPEM(contents[0]) {
			return errNoCertificate
		}
		// A new value, so that who is known on open connections is found out anew.
		h.clientCA.now.Store(&clientCAs{&authn.Certificates{Authorities: pool}, slices.Concat(own, []byte("\n"), contents[0])})
		return nil
	}, h.config.ClientCAFile)
}

// clientAuthorities are those whose certificates clients are asked for.
func (h *Host) clientAuthorities() *x509.CertPool {
	pool := h.clientCA.now.Load().certificates.Authorities.Clone()
	pool.AppendCertsFromPEM(h.frontProxy.now.Load().bundle)
	return pool
}

// reloadFiles has everything follow that depends on files that have changed.
func (h *Host) reloadFiles(base *tls.Config) error {
	if !h.reloader.reload() {
		return nil
	}
	// Clients show a certificate of the authorities that they are asked for.
	next := base.Clone()
	next.ClientCAs = h.clientAuthorities()
	h.handshake.Store(next)
	return errors.Join(h.each((*controlplane.ControlPlane).IdentityChanged), h.renew())
}

// clusterAuthentication is what other servers need to authenticate clients as
// this one does.
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
