// Package pki manages the keys and certificates that a server generates: a certificate authority, a
// serving certificate, client certificates and the signing key of service account tokens. It
// creates missing ones and renews those that expire soon. It does not manage certificates of users.
// All keys are ECDSA P-256: their generation takes far less than a millisecond, so a first start is
// not delayed, and all clients support them.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Lifetimes of certificates, and how long before their expiry they are renewed.
const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	leafLifetime      = 365 * 24 * time.Hour
	renewBefore       = 30 * 24 * time.Hour
	// backdate allows for client clocks that are slightly behind.
	backdate = 5 * time.Minute
)

// ErrExpired reports that the certificate of an authority has expired.
var ErrExpired = errors.New("certificate has expired")

// Authority is a certificate authority with its files. Its methods must not be called
// concurrently.
type Authority struct {
	fs   files
	dir  string
	name string // of its files
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

// Open loads the authority in dir (ca.crt, ca.key). If neither file exists, it creates them and the
// directory. Errors contain the file and the solution; the error is ErrExpired for an expired
// certificate. Here and below, dir may be InMemory.
func Open(dir string) (*Authority, error) { return openOwn(filesOf(dir), dir) }

func openOwn(fsys files, dir string) (*Authority, error) {
	return openAuthority(fsys, dir, "ca", "mainstay-ca", "remove the folder "+dir+" to have a new authority made, then hand the new admin.kubeconfig to its users")
}

// OpenExisting is like Open, but returns fs.ErrNotExist if there is no authority.
func OpenExisting(dir string) (*Authority, error) {
	if _, err := os.Stat(filepath.Join(dir, "ca.key")); err != nil {
		return nil, err
	}
	return Open(dir)
}

// OpenFrontProxy is Open for the authority of front proxy certificates
// (front-proxy-ca.crt, .key). It is not that of users, since a front proxy can act as
// any user.
func OpenFrontProxy(dir string) (*Authority, error) { return openFrontProxy(filesOf(dir), dir) }

func openFrontProxy(fsys files, dir string) (*Authority, error) {
	const name = "front-proxy-ca"
	return openAuthority(fsys, dir, name, name, "remove "+name+".crt and "+name+".key to have a new authority made")
}

func openAuthority(fsys files, dir, name, commonName, whenExpired string) (*Authority, error) {
	if err := ensureDir(fsys, dir); err != nil {
		return nil, err
	}
	a := &Authority{fs: fsys, dir: dir, name: name}
	pair, err := a.load(name)
	if errors.Is(err, fs.ErrNotExist) {
		return a, a.create(commonName)
	}
	if err != nil {
		return nil, err
	}
	if !pair.cert.IsCA {
		return nil, fmt.Errorf("read %s: the certificate is not one of an authority; remove %s.crt and %s.key to have new ones made", a.path(name+".crt"), name, name)
	}
	if time.Now().After(pair.cert.NotAfter) {
		return nil, fmt.Errorf("read %s: %w on %s; %s", a.path(name+".crt"), ErrExpired, pair.cert.NotAfter.Format(time.DateOnly), whenExpired)
	}
	a.key, a.cert, a.pem = pair.key, pair.cert, pair.certPEM
	return a, nil
}

func (a *Authority) create(commonName string) error {
	now := time.Now()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	pair, err := a.sign(a.name, template)
	if err != nil {
		return err
	}
	a.key, a.cert, a.pem = pair.key, pair.cert, pair.certPEM
	return nil
}

// Bundle returns the authority's certificate in PEM, which must not be changed.
func (a *Authority) Bundle() []byte { return a.pem }

// Pool returns a new pool of the authority's certificate.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// KeyPair returns the authority's certificate and key, with which others sign. It may be
// called concurrently with any method.
func (a *Authority) KeyPair() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{a.cert.Raw}, PrivateKey: a.key, Leaf: a.cert}
}

// Ends returns when the authority's certificate expires.
func (a *Authority) Ends() time.Time { return a.cert.NotAfter }

// Serving returns a certificate (apiserver.crt, apiserver.key) for hosts, which are
// names or IP addresses. It issues a new one if the stored one was not signed by this
// authority, is about to expire, or lacks a host.
func (a *Authority) Serving(hosts []string) (tls.Certificate, error) {
	pair, err := a.leaf("apiserver", x509.ExtKeyUsageServerAuth, func(c *x509.Certificate) bool { return covers(c, hosts) },
		func() *x509.Certificate {
			template := &x509.Certificate{Subject: pkix.Name{CommonName: "kube-apiserver"}}
			for _, host := range hosts {
				if ip := net.ParseIP(host); ip != nil {
					template.IPAddresses = append(template.IPAddresses, ip)
				} else {
					template.DNSNames = append(template.DNSNames, host)
				}
			}
			return template
		})
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{pair.cert.Raw}, PrivateKey: pair.key, Leaf: pair.cert}, nil
}

// Client returns the client certificate and key, in PEM, of a user with groups, stored
// as name.crt and name.key. They are renewed as by Serving.
func (a *Authority) Client(name, user string, groups ...string) (cert, key []byte, err error) {
	pair, err := a.leaf(name, x509.ExtKeyUsageClientAuth,
		func(c *x509.Certificate) bool {
			return c.Subject.CommonName == user && sameSet(c.Subject.Organization, groups)
		},
		func() *x509.Certificate {
			return &x509.Certificate{Subject: pkix.Name{CommonName: user, Organization: groups}}
		})
	if err != nil {
		return nil, nil, err
	}
	return pair.certPEM, pair.keyPEM, nil
}

// Issue returns a new client certificate and its key in PEM, for a user with groups. Its lifetime
// is bounded by that of the authority. Nothing is stored. It is safe for concurrent use.
func (a *Authority) Issue(lifetime time.Duration, user string, groups ...string) (cert, key []byte, err error) {
	t := &x509.Certificate{Subject: pkix.Name{CommonName: user, Organization: groups}}
	a.complete(t, lifetime, x509.ExtKeyUsageClientAuth)
	pair, err := a.issue(user, t)
	return pair.certPEM, pair.keyPEM, err
}

// complete sets the common fields of all certificates except the authority's.
func (a *Authority) complete(t *x509.Certificate, lifetime time.Duration, usage x509.ExtKeyUsage) {
	now := time.Now()
	t.NotBefore, t.NotAfter = now.Add(-backdate), now.Add(lifetime)
	if t.NotAfter.After(a.cert.NotAfter) {
		t.NotAfter = a.cert.NotAfter
	}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	t.BasicConstraintsValid = true
}

// sameSet reports whether two lists are equal as sets: certificates reorder
// organizations.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// leaf returns the stored certificate of a name if it is still good, and otherwise
// issues one from the template.
func (a *Authority) leaf(name string, usage x509.ExtKeyUsage, fits func(*x509.Certificate) bool, template func() *x509.Certificate) (pair, error) {
	kept, err := a.load(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return pair{}, err
	}
	now := time.Now()
	if err == nil && kept.cert.CheckSignatureFrom(a.cert) == nil && now.Add(renewBefore).Before(kept.cert.NotAfter) && fits(kept.cert) {
		return kept, nil
	}
	t := template()
	a.complete(t, leafLifetime, usage)
	made, err := a.sign(name, t)
	if isFull(err) {
		return made, nil // as good while it lasts; issued again at the next start
	}
	return made, err
}

func covers(cert *x509.Certificate, hosts []string) bool {
	for _, host := range hosts {
		if cert.VerifyHostname(host) != nil {
			return false
		}
	}
	return true
}

// pair is a certificate with its key.
type pair struct {
	cert            *x509.Certificate
	key             *ecdsa.PrivateKey
	certPEM, keyPEM []byte
}

// sign generates a key and a certificate for it, and writes both. If the authority has
// no certificate yet, it is self-signed.
func (a *Authority) sign(name string, template *x509.Certificate) (pair, error) {
	p, err := a.issue(name, template)
	if err != nil {
		return pair{}, err
	}
	return p, a.write(name, p)
}

// issue is sign without files.
func (a *Authority) issue(name string, template *x509.Certificate) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("make the key of %s: %w", name, err)
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return pair{}, fmt.Errorf("make the serial number of %s: %w", name, err)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return pair{}, fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return pair{}, fmt.Errorf("read the new certificate of %s: %w", name, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{cert: cert, key: key, keyPEM: keyPEM, certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// write stores the key before the certificate: after a crash between the two the
// certificate is missing, or does not match its key, which load reports as missing,
// and both are issued again.
func (a *Authority) write(name string, p pair) error {
	return writeFiles(a.fs, content{a.path(name + ".key"), p.keyPEM, 0o600}, content{a.path(name + ".crt"), p.certPEM, 0o600})
}

func (a *Authority) path(file string) string { return filepath.Join(a.dir, file) }

// load reads name.crt and name.key. The error is fs.ErrNotExist if both are missing,
// or, for all but the authority itself, if they do not match.
func (a *Authority) load(name string) (pair, error) {
	crtFile, keyFile := a.path(name+".crt"), a.path(name+".key")
	certPEM, certErr := a.fs.read(crtFile)
	key, keyPEM, keyErr := readKey(a.fs, keyFile)
	switch {
	case errors.Is(certErr, fs.ErrNotExist) && (keyErr == nil || errors.Is(keyErr, fs.ErrNotExist)):
		return pair{}, fs.ErrNotExist // a key without a certificate has signed no certificates
	case certErr != nil:
		return pair{}, fmt.Errorf("read certificate: %w", certErr)
	case errors.Is(keyErr, fs.ErrNotExist):
		return pair{}, fmt.Errorf("%s is missing, but its certificate %s exists; restore it, or remove the certificate to create new ones", keyFile, crtFile)
	case keyErr != nil:
		return pair{}, keyErr
	}
	cert, err := parseCertificate(crtFile, certPEM)
	if err != nil {
		return pair{}, err
	}
	if public, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(key.Public()) {
		if name != a.name {
			return pair{}, fs.ErrNotExist
		}
		return pair{}, fmt.Errorf("%s is not the key of %s; restore the one that belongs to it, or remove both to have new ones made", keyFile, crtFile)
	}
	return pair{cert: cert, key: key, certPEM: certPEM, keyPEM: keyPEM}, nil
}

func parseCertificate(file string, data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("read %s: it contains no PEM certificate; restore the file, or remove it and its .key to create new ones", file)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w; restore the file, or remove it and its .key to create new ones", file, err)
	}
	return cert, nil
}

// SigningKey returns the key in dir that signs service account tokens (sa.key). It generates a
// missing one and writes the public key (sa.pub).
func SigningKey(dir string) (crypto.Signer, error) { return signingKey(filesOf(dir), dir) }

func signingKey(fsys files, dir string) (crypto.Signer, error) {
	if err := ensureDir(fsys, dir); err != nil {
		return nil, err
	}
	keyFile, pubFile := filepath.Join(dir, "sa.key"), filepath.Join(dir, "sa.pub")
	key, keyPEM, err := readKey(fsys, keyFile)
	made := errors.Is(err, fs.ErrNotExist)
	if made {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, fmt.Errorf("make the service account signing key: %w", err)
		}
		keyPEM, err = encodeKey(key)
	}
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encode the public service account key: %w", err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	if made {
		return key, writeFiles(fsys, content{keyFile, keyPEM, 0o600}, content{pubFile, publicPEM, 0o600})
	}
	// A crash can occur between the two writes.
	if _, err := fsys.read(pubFile); !errors.Is(err, fs.ErrNotExist) {
		return key, nil // only other programs read it
	}
	if err := writeFiles(fsys, content{pubFile, publicPEM, 0o600}); err != nil && !isFull(err) {
		return nil, err
	}
	return key, nil
}
