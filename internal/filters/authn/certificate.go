package authn

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/simulation"
)

// uidAttribute is the subject attribute of a client certificate that contains the user's UID.
var uidAttribute = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}

// Certificates authenticates client certificates. The common name is the user name, and the organizations are
// the groups. The TLS server must request certificates without verification, so that an invalid certificate
// results in a 401 instead of a failed handshake. The result is cached for the connection (see NewConn) until
// the certificate expires, because the certificate of a connection cannot change. It is safe for concurrent
// use.
type Certificates struct {
	// Authorities are the certificates of the trusted authorities.
	Authorities *x509.CertPool
	// Expiration records the remaining lifetime of each certificate in seconds, once per
	// connection; may be nil.
	Expiration prometheus.Observer
}

type connKey struct{}

// conn caches the results of certificate verifications for a connection.
type conn struct {
	verified atomic.Pointer[verifiedCertificate]
	proxied  atomic.Pointer[verifiedProxy]
}

// verifiedCertificate is the result of a successful verification.
type verifiedCertificate struct {
	by *Certificates
	// found is nil if the certificate has no common name.
	found *request.Authentication
	until time.Time
}

// NewConn returns a context in which Certificates and RequestHeaders cache their results. Call it from
// http.Server.ConnContext. Without such a context, the certificate is verified again for each request.
func NewConn(ctx context.Context) context.Context {
	return context.WithValue(ctx, connKey{}, new(conn))
}

// Authenticate implements Authenticator.
func (c *Certificates) Authenticate(r *http.Request) (*request.Authentication, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	at, _ := r.Context().Value(connKey{}).(*conn)
	if at != nil {
		if v := at.verified.Load(); v != nil && v.by == c && simulation.From(r.Context()).Shifted().Before(v.until) {
			return v.found, nil
		}
	}
	v, err := c.verify(r.Context(), r.TLS.PeerCertificates)
	if err != nil {
		return nil, fmt.Errorf("client certificate: %w: %w", ErrUnauthorized, err)
	}
	if c.Expiration != nil {
		c.Expiration.Observe(time.Until(r.TLS.PeerCertificates[0].NotAfter).Seconds())
	}
	if at != nil {
		at.verified.Store(v)
	}
	return v.found, nil
}

// verifyClient verifies the client certificate certs[0], with the other certificates as
// intermediates. It returns all valid chains.
func verifyClient(ctx context.Context, authorities *x509.CertPool, certs []*x509.Certificate) ([][]*x509.Certificate, error) {
	options := x509.VerifyOptions{
		CurrentTime:   simulation.From(ctx).Shifted(),
		Roots:         authorities,
		Intermediates: x509.NewCertPool(),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, cert := range certs[1:] {
		options.Intermediates.AddCert(cert)
	}
	return certs[0].Verify(options)
}

func (c *Certificates) verify(ctx context.Context, certs []*x509.Certificate) (*verifiedCertificate, error) {
	chains, err := verifyClient(ctx, c.Authorities, certs)
	if err != nil {
		return nil, err
	}
	user, err := userOf(certs[0])
	if err != nil {
		return nil, err
	}
	v := &verifiedCertificate{by: c, until: latestExpiry(chains)}
	if user != nil {
		v.found = &request.Authentication{User: user, Credential: request.CredentialCertificate}
	}
	return v, nil
}

// latestExpiry returns the time until which at least one chain is valid.
func latestExpiry(chains [][]*x509.Certificate) time.Time {
	var last time.Time
	for _, chain := range chains {
		end := chain[0].NotAfter
		for _, cert := range chain[1:] {
			if cert.NotAfter.Before(end) {
				end = cert.NotAfter
			}
		}
		if end.After(last) {
			last = end
		}
	}
	return last
}

func userOf(cert *x509.Certificate) (*request.User, error) {
	if cert.Subject.CommonName == "" {
		return nil, nil // as in kube-apiserver, a certificate without a name is ignored
	}
	uid, err := uidOf(cert)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(cert.Raw)
	return addAuthenticatedGroup(&request.User{
		Name:   cert.Subject.CommonName,
		UID:    uid,
		Groups: cert.Subject.Organization,
		Extra:  map[string][]string{request.ExtraCredentialID: {"X509SHA256=" + hex.EncodeToString(sum[:])}},
	}), nil
}

func uidOf(cert *x509.Certificate) (string, error) {
	uid := ""
	for _, name := range cert.Subject.Names {
		if !name.Type.Equal(uidAttribute) {
			continue
		}
		value, ok := name.Value.(string)
		switch {
		case !ok:
			return "", errors.New("the UID in the subject is not a string")
		case value == "":
			return "", errors.New("the UID in the subject is empty")
		case uid != "":
			return "", errors.New("the subject has more than one UID")
		}
		uid = value
	}
	return uid, nil
}
