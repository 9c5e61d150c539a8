package host

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/validation"
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

// newCertificates loads the configured certificates. Without --tls-cert-file, setOwn must be called
// before get.
func newCertificates(config TLSConfig, reloader *fileReloader) (*certificates, error) {
	c := &certificates{}
	var err error
	if config.CertFile != "" {
		if c.file, err = openCertificateFile(reloader, "--tls-cert-file", config.CertFile, config.KeyFile); err != nil {
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

func (c *certificates) setOwn(cert tls.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.main = cert
}

// get is tls.Config.GetCertificate.
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

// named returns the first certificate for a host name, or nil. Exact names precede wildcards, and
// names of the flag precede those of certificates.
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

// has reports whether the certificate is valid for a name. The first label of the name may be *.
func (s *sniCertificate) has(name string) bool {
	names := s.names
	if len(names) == 0 {
		names = s.file.current.Load().names
	}
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// hostNames returns the host names of a certificate. The common name is the first one, if it is a
// valid host name.
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
