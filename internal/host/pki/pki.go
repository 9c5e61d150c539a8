// Package pki manages the keys and certificates that a server generates: a certificate authority, a serving
// certificate, client certificates and the signing key of service account tokens. It creates missing keys
// and certificates and renews certificates that expire soon. It does not manage certificates of users. All
// keys are ECDSA P-256. All clients support such keys, and generating one takes far less than a millisecond, so
// the first start is not delayed.
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

// Lifetimes of certificates, and the time before their expiry at which they are renewed.
const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	leafLifetime      = 365 * 24 * time.Hour
	renewBefore       = 30 * 24 * time.Hour
	// backdate allows for client clocks that are slightly behind.
	backdate = 5 * time.Minute
)

// ErrExpired reports that the certificate of an authority has expired.
var ErrExpired = errors.New("certificate has expired")

// Authority is a certificate authority that is stored in files. Its methods must not be called concurrently,
// unless noted.
type Authority struct {
	fs   files
	dir  string
	name string // base name of its files
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

// Open loads the authority in dir (ca.crt, ca.key). If neither file exists, it creates both and the
// directory. If only ca.crt is missing, it creates a certificate for the existing key, so that issued
// certificates stay valid. If only ca.key is missing, it returns an error. Errors name the file and describe a
// solution. The error wraps ErrExpired if the certificate has expired. For all functions of this package that
// have a parameter dir, except OpenExisting, dir may be InMemory.
func Open(dir string) (*Authority, error) { return openOwn(filesOf(dir), dir) }

func openOwn(fsys files, dir string) (*Authority, error) {
	return openAuthority(fsys, dir, "ca", "mainstay-ca", "remove the folder "+dir+" to create a new authority, then distribute the new admin.kubeconfig to its users")
}

// OpenExisting is like Open, but returns an error that wraps fs.ErrNotExist if ca.key does not exist.
func OpenExisting(dir string) (*Authority, error) {
	if _, err := os.Stat(filepath.Join(dir, "ca.key")); err != nil {
		return nil, err
	}
	return Open(dir)
}

// OpenFrontProxy is like Open, for the authority of front proxy certificates (front-proxy-ca.crt,
// front-proxy-ca.key). It is separate from the authority of user certificates, because a front proxy
// can act as any user.
func OpenFrontProxy(dir string) (*Authority, error) { return openFrontProxy(filesOf(dir), dir) }

func openFrontProxy(fsys files, dir string) (*Authority, error) {
	const name = "front-proxy-ca"
	return openAuthority(fsys, dir, name, name, "remove "+name+".crt and "+name+".key to create a new authority")
}

func openAuthority(fsys files, dir, name, commonName, whenExpired string) (*Authority, error) {
	if err := ensureDir(fsys, dir); err != nil {
		return nil, err
	}
	a := &Authority{fs: fsys, dir: dir, name: name}
	pair, err := a.load(name)
	if errors.Is(err, fs.ErrNotExist) {
		return a, a.create(commonName, pair)
	}
	if err != nil {
		return nil, err
	}
	if !pair.cert.IsCA {
		return nil, fmt.Errorf("read %s: the certificate is not a CA certificate; remove %s.crt and %s.key to create new ones", a.path(name+".crt"), name, name)
	}
	if time.Now().After(pair.cert.NotAfter) {
		return nil, fmt.Errorf("read %s: %w on %s; %s", a.path(name+".crt"), ErrExpired, pair.cert.NotAfter.Format(time.DateOnly), whenExpired)
	}
	a.key, a.cert, a.pem = pair.key, pair.cert, pair.certPEM
	return a, nil
}

// create creates the certificate of the authority, and also its key unless existing contains one. An existing
// key is never replaced, because it may have signed certificates.
func (a *Authority) create(commonName string, existing pair) error {
	now := time.Now()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	pair, err := a.issue(a.name, existing.key, template)
	if err != nil {
		return err
	}
	written := a.contents(a.name, pair)
	if existing.key != nil {
		written = written[1:] // only the certificate
	}
	if err := writeFiles(a.fs, written...); err != nil {
		return err
	}
	a.key, a.cert, a.pem = pair.key, pair.cert, pair.certPEM
	return nil
}

// Bundle returns the authority's certificate in PEM. The caller must not modify it.
func (a *Authority) Bundle() []byte { return a.pem }

// Pool returns a new pool that contains only the authority's certificate. The caller owns it.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// KeyPair returns the authority's certificate and key, for signers outside this package. It may be
// called concurrently with any method.
func (a *Authority) KeyPair() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{a.cert.Raw}, PrivateKey: a.key, Leaf: a.cert}
}

// NotAfter returns the expiry time of the authority's certificate.
func (a *Authority) NotAfter() time.Time { return a.cert.NotAfter }

// servingName is the base name of the files of the serving certificate.
const servingName = "apiserver"

// Serving returns the serving certificate (apiserver.crt, apiserver.key) for hosts, which are names or IP
// addresses. It issues and stores a new certificate if none is stored, or if the stored certificate was not
// signed by this authority, expires in less than 30 days, or is not valid for all hosts. If the disk is full,
// Serving returns the new certificate without storing it. It returns an error if a stored file cannot be read,
// or if the certificate cannot be stored for another reason.
func (a *Authority) Serving(hosts []string) (tls.Certificate, error) {
	pair, err := a.leaf(servingName, x509.ExtKeyUsageServerAuth, func(c *x509.Certificate) bool { return covers(c, hosts) },
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

// Client returns the client certificate and key for a user with groups, in PEM. They are stored as name.crt and
// name.key. Client issues new ones under the same conditions as Serving, or if the user or the groups differ.
// It returns the same errors as Serving. The caller must not modify the result.
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

// Issue returns a new client certificate and its key for a user with groups, in PEM. It does not store them.
// The certificate expires no later than the certificate of the authority. Issue is safe for concurrent use. It
// returns an error if the key cannot be generated or the certificate cannot be signed.
func (a *Authority) Issue(lifetime time.Duration, user string, groups ...string) (cert, key []byte, err error) {
	t := &x509.Certificate{Subject: pkix.Name{CommonName: user, Organization: groups}}
	a.complete(t, lifetime, x509.ExtKeyUsageClientAuth)
	pair, err := a.issue(user, nil, t)
	return pair.certPEM, pair.keyPEM, err
}

// complete sets the fields that are common to all issued certificates. It does not set them for the certificate
// of the authority itself.
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

// sameSet reports whether two lists contain the same elements. Certificates do not preserve the
// order of organizations.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// leaf returns the certificate that is stored under a name, if it is valid and fits returns true. Otherwise, it
// issues a certificate from the template and stores it.
func (a *Authority) leaf(name string, usage x509.ExtKeyUsage, fits func(*x509.Certificate) bool, template func() *x509.Certificate) (pair, error) {
	stored, err := a.load(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return pair{}, err
	}
	now := time.Now()
	if err == nil && stored.cert.CheckSignatureFrom(a.cert) == nil && now.Add(renewBefore).Before(stored.cert.NotAfter) && fits(stored.cert) {
		return stored, nil
	}
	t := template()
	a.complete(t, leafLifetime, usage)
	created, err := a.sign(name, t)
	if isFull(err) {
		return created, nil // usable until the process ends; the next start issues another certificate
	}
	return created, err
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

// sign generates a key, issues its certificate, and writes both to files.
func (a *Authority) sign(name string, template *x509.Certificate) (pair, error) {
	p, err := a.issue(name, nil, template)
	if err != nil {
		return pair{}, err
	}
	return p, writeFiles(a.fs, a.contents(name, p)...)
}

// issue signs a certificate for a key and writes no files. If key is nil, it generates a key. If the
// authority has no certificate yet, the certificate is self-signed.
func (a *Authority) issue(name string, key *ecdsa.PrivateKey, template *x509.Certificate) (pair, error) {
	var err error
	if key == nil {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return pair{}, fmt.Errorf("create the key of %s: %w", name, err)
		}
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return pair{}, fmt.Errorf("create the serial number of %s: %w", name, err)
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

// contents returns the files of a pair in the order in which they are written, with the key before the
// certificate. After a crash between the two writes, the certificate is missing or does not match the key. load
// returns fs.ErrNotExist in both cases, and the certificate is issued again.
func (a *Authority) contents(name string, p pair) []content {
	return []content{{a.path(name + ".key"), p.keyPEM, 0o600}, {a.path(name + ".crt"), p.certPEM, 0o600}}
}

func (a *Authority) path(file string) string { return filepath.Join(a.dir, file) }

// load reads name.crt and name.key. It returns fs.ErrNotExist if the certificate is missing. It also returns
// fs.ErrNotExist if the key does not match the certificate, except for the files of the authority itself. If
// only the certificate is missing, the pair contains the key. If the key is invalid, load returns that error
// even if the certificate is missing.
func (a *Authority) load(name string) (pair, error) {
	crtFile, keyFile := a.path(name+".crt"), a.path(name+".key")
	certPEM, certErr := a.fs.read(crtFile)
	key, keyPEM, keyErr := readKey(a.fs, keyFile)
	certMissing, keyMissing := errors.Is(certErr, fs.ErrNotExist), errors.Is(keyErr, fs.ErrNotExist)
	switch {
	case certMissing && keyMissing:
		return pair{}, fs.ErrNotExist
	case certErr != nil && !certMissing:
		return pair{}, fmt.Errorf("read certificate: %w", certErr)
	case keyMissing:
		return pair{}, fmt.Errorf("%s is missing, but its certificate %s exists; restore it, or remove the certificate to create new ones", keyFile, crtFile)
	case keyErr != nil:
		return pair{}, keyErr
	case certMissing:
		return pair{key: key, keyPEM: keyPEM}, fs.ErrNotExist
	}
	cert, err := parseCertificate(crtFile, certPEM)
	if err != nil {
		return pair{}, err
	}
	if public, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(key.Public()) {
		if name != a.name {
			return pair{}, fs.ErrNotExist
		}
		return pair{}, fmt.Errorf("%s is not the key of %s; restore the matching key, or remove both files to create new ones", keyFile, crtFile)
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

// SigningKey returns the key in dir that signs service account tokens (sa.key). If the file does not exist,
// SigningKey generates a key and creates the directory. It also writes the public key (sa.pub), which only
// other programs read. It returns an error if sa.key is invalid, if only sa.key is missing, or if a write
// fails.
func SigningKey(dir string) (crypto.Signer, error) { return signingKey(filesOf(dir), dir) }

func signingKey(fsys files, dir string) (crypto.Signer, error) {
	if err := ensureDir(fsys, dir); err != nil {
		return nil, err
	}
	keyFile, pubFile := filepath.Join(dir, "sa.key"), filepath.Join(dir, "sa.pub")
	key, keyPEM, err := readKey(fsys, keyFile)
	created := errors.Is(err, fs.ErrNotExist)
	_, pubErr := fsys.read(pubFile)
	if created {
		// A crash cannot leave sa.pub without sa.key, because sa.key is written first. A new key would
		// invalidate all tokens.
		if !errors.Is(pubErr, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s is missing, but its public key %s exists; restore it, or remove the public key to create a new key, which invalidates all tokens of service accounts", keyFile, pubFile)
		}
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, fmt.Errorf("create the service account signing key: %w", err)
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
	if created {
		return key, writeFiles(fsys, content{keyFile, keyPEM, 0o600}, content{pubFile, publicPEM, 0o600})
	}
	// sa.pub may be missing after a crash between the two writes.
	if !errors.Is(pubErr, fs.ErrNotExist) {
		return key, nil // only other programs read it
	}
	if err := writeFiles(fsys, content{pubFile, publicPEM, 0o600}); err != nil && !isFull(err) {
		return nil, err
	}
	return key, nil
}
