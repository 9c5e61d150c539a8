package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"

	"mainstay.dev/mainstay/filters/authn"
	"mainstay.dev/mainstay/request"
)

var errNoCertificate = errors.New("it holds no PEM certificate")

// users are known by certificates of the server's own authority, by which the
// administrator is, and of those of --client-ca-file.
type users struct{ now atomic.Pointer[signers] }

// signers are the authorities that may sign users.
type signers struct {
	certificates *authn.Certificates
	bundle       []byte // in PEM
}

// Authenticate implements authn.Authenticator.
func (u *users) Authenticate(r *http.Request) (*request.User, error) {
	return u.now.Load().certificates.Authenticate(r)
}

// openUsers reads which authorities may sign users.
func (s *Server) openUsers() error {
	s.users = &users{}
	own := s.authority.Bundle()
	if s.config.ClientCAFile == "" {
		s.users.now.Store(&signers{&authn.Certificates{Authorities: s.authority.Pool()}, own})
		return nil
	}
	return s.files.add("--client-ca-file", func(contents [][]byte) error {
		pool := s.authority.Pool()
		if !pool.AppendCertsFromPEM(contents[0]) {
			return errNoCertificate
		}
		// A new value, so that who is known on open connections is found out anew.
		s.users.now.Store(&signers{&authn.Certificates{Authorities: pool}, slices.Concat(own, []byte("\n"), contents[0])})
		return nil
	}, s.config.ClientCAFile)
}

// clientAuthorities are those whose certificates clients are asked for.
func (s *Server) clientAuthorities() *x509.CertPool {
	pool := s.users.now.Load().certificates.Authorities.Clone()
	pool.AppendCertsFromPEM(s.frontProxy.now.Load().bundle)
	return pool
}

// lookAtFiles has everything follow that depends on files that have changed.
func (s *Server) lookAtFiles(base *tls.Config) error {
	if !s.files.look() {
		return nil
	}
	// Clients show a certificate of the authorities that they are asked for.
	next := base.Clone()
	next.ClientCAs = s.clientAuthorities()
	s.handshake.Store(next)
	wanted, err := s.trustData()
	if err != nil {
		return err
	}
	s.trust.want(wanted)
	return s.renew()
}
