package host

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/host/pki"
)

// certificates selects the serving certificate of a connection. It is safe for concurrent use.
type certificates struct {
	main tls.Certificate // issued by the server's own CA; unused if file is set
	file *certificateFile
	sni  []sniCertificate
	mu   sync.RWMutex // guards main
}

type sniCertificate struct {
	file  *certificateFile
	names []string
}

// newCertificates loads the configured certificates. If neither TLSConfig.CertFile nor CertDir provides a
// certificate, setOwn must be called before get. own is the server's own CA.
func newCertificates(config TLSConfig, own *pki.Authority, reloader *fileReloader) (*certificates, error) {
	c := &certificates{}
	flag, certFile, keyFile := "--tls-cert-file", config.CertFile, config.KeyFile
	if certFile == "" {
		var err error
		if certFile, keyFile, err = certificateIn(config.CertDir, own); err != nil {
			return nil, fmt.Errorf("--cert-dir=%s: %w", config.CertDir, err)
		}
		flag = "--cert-dir"
	}
	if certFile != "" {
		var err error
		if c.file, err = openCertificateFile(reloader, flag, certFile, keyFile); err != nil {
			return nil, err
		}
	}
	for _, sni := range config.SNI {
		file, err := openCertificateFile(reloader, "--tls-sni-cert-key", sni.CertFile, sni.KeyFile)
		if err != nil {
			return nil, err
		}
		c.sni = append(c.sni, sniCertificate{file: file, names: sni.Names})
	}
	return c, nil
}

// certificateIn returns the paths of the serving certificate and its key in dir. The paths are "" if dir is
// "", if dir contains neither file, or if the server's own CA issued the certificate.
func certificateIn(dir string, own *pki.Authority) (certFile, keyFile string, err error) {
	if dir == "" {
		return "", "", nil
	}
	certFile, keyFile = filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key")
	_, keyErr := os.Stat(keyFile)
	encoded, err := os.ReadFile(certFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist):
		return "", "", nil
	case errors.Is(err, fs.ErrNotExist):
		return "", "", errors.New("the folder contains apiserver.key but no apiserver.crt; add the certificate, or remove the key to let the server write its own")
	case err != nil:
		return "", "", err
	}
	if own.Issued(encoded) {
		return "", "", nil
	}
	return certFile, keyFile, nil
}

func (c *certificates) setOwn(cert tls.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.main = cert
}

// get implements tls.Config.GetCertificate.
func (c *certificates) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := c.named(hello.ServerName); cert != nil {
		return cert, nil
	}
	if c.file != nil {
		return c.file.get(), nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return &c.main, nil
}

// named returns the first SNI certificate for a host name, or nil if there is none. Exact names take
// precedence over wildcards, and names in the flag take precedence over names in certificates.
func (c *certificates) named(host string) *tls.Certificate {
	if host == "" || len(c.sni) == 0 {
		return nil
	}
	_, rest, _ := strings.Cut(host, ".")
	for _, name := range []string{host, "*." + rest} {
		for _, fromFlag := range []bool{true, false} {
			for i := range c.sni {
				if sni := &c.sni[i]; (len(sni.names) > 0) == fromFlag && sni.has(name) {
					return sni.file.get()
				}
			}
		}
	}
	return nil
}

// has reports whether name is one of the certificate's host names. If the first label of name is *, it
// matches only the same wildcard.
func (s *sniCertificate) has(name string) bool {
	return slices.ContainsFunc(s.hosts(), func(n string) bool { return strings.EqualFold(n, name) })
}

// hosts returns the host names in the flag, or the host names in the certificate if the flag contains none.
func (s *sniCertificate) hosts() []string {
	if len(s.names) > 0 {
		return s.names
	}
	return s.file.current.Load().names
}

// hostNames returns the host names of a certificate. The common name is the first element, if it is a valid
// host name.
func hostNames(leaf *x509.Certificate) []string {
	names := leaf.DNSNames
	name := leaf.Subject.CommonName
	isHost := len(validation.IsDNS1123Subdomain(strings.TrimPrefix(name, "*."))) == 0
	if _, err := netip.ParseAddr(name); err != nil && isHost {
		names = append([]string{name}, names...)
	}
	return names
}

// certificateFile is a certificate and its key in two files. If changed files are invalid, the last
// valid certificate stays in use. It is safe for concurrent use.
type certificateFile struct{ current atomic.Pointer[certificate] }

type certificate struct {
	tls.Certificate
	pem   []byte   // the certificate with its chain
	names []string // host names
}

func openCertificateFile(reloader *fileReloader, flag, certFile, keyFile string) (*certificateFile, error) {
	f := &certificateFile{}
	return f, reloader.add(flag, func(contents [][]byte) error {
		cert, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return fmt.Errorf("with the key %s: %w", keyFile, err)
		}
		f.current.Store(&certificate{cert, contents[0], hostNames(cert.Leaf)})
		return nil
	}, certFile, keyFile)
}

func (f *certificateFile) get() *tls.Certificate { return &f.current.Load().Certificate }
