package host

import (
	"crypto/x509"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/internal/request"
)

var errNoCertificate = errors.New("it contains no PEM certificate")

// clientCA authenticates users by client certificates that the server's own CA or a CA in --client-ca-file
// issued. The server's own CA issues the administrator's certificate.
type clientCA struct{ current atomic.Pointer[clientCAs] }

// clientCAs contains the CA certificates of clients. It is immutable.
type clientCAs struct {
	certificates *authn.Certificates
	bundle       []byte // in PEM
}

// Authenticate implements authn.Authenticator.
func (u *clientCA) Authenticate(r *http.Request) (*request.Authentication, error) {
	return u.current.Load().certificates.Authenticate(r)
}

// openClientCA loads the CA certificates of clients: the server's own CA and the certificates in file,
// which may be "".
func openClientCA(file string, own *pki.Authority, expiration prometheus.Observer, reloader *fileReloader) (*clientCA, error) {
	c := &clientCA{}
	set := func(pool *x509.CertPool, bundle []byte) {
		c.current.Store(&clientCAs{&authn.Certificates{Authorities: pool, Expiration: expiration}, bundle})
	}
	if file == "" {
		set(own.Pool(), own.Bundle())
		return c, nil
	}
	return c, reloader.add("--client-ca-file", func(contents [][]byte) error {
		pool := own.Pool()
		if !pool.AppendCertsFromPEM(contents[0]) {
			return errNoCertificate
		}
		// A new value makes clients on open connections authenticate again.
		set(pool, slices.Concat(own.Bundle(), []byte("\n"), contents[0]))
		return nil
	}, file)
}

// clusterAuthentication returns the data of the ConfigMap extension-apiserver-authentication.
func (i *identity) clusterAuthentication() (map[string]string, error) {
	proxies := i.frontProxy.current.Load()
	return proxies.headers.ClusterAuthentication(i.clients.current.Load().bundle, proxies.bundle)
}
