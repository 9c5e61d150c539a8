package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// certificates selects the serving certificate of a connection. It is safe for
// concurrent use.
type certificates struct {
	main tls.Certificate // issued by our own CA; unused if file is set
	file *certificateFile
	sni  []sniCertificate
	mu   sync.RWMutex // guards main
}

type sniCertificate struct {
	file  *certificateFile
	names []string
}

// newCertificates loads the configured certificates. If there is no
// --tls-cert-file, setOwn must be called before get.
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
	for _, sni := range c.sni {
		cert := sni.file.get()
		if matchesSNI(hello.ServerName, sni.names, cert.Leaf) {
			return cert, nil
		}
	}
	if c.file != nil {
		return c.file.get(), nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return &c.main, nil
}

func matchesSNI(host string, names []string, leaf *x509.Certificate) bool {
	if host == "" {
		return false
	}
	if len(names) == 0 {
		return leaf != nil && leaf.VerifyHostname(host) == nil
	}
	for _, name := range names {
		if strings.EqualFold(name, host) {
			return true
		}
		if suffix, ok := strings.CutPrefix(name, "*"); ok {
			if _, rest, found := strings.Cut(host, "."); found && strings.EqualFold("."+rest, suffix) {
				return true
			}
		}
	}
	return false
}

// certificateFile is a certificate and its key in two files. While they cannot be
// loaded, the last valid certificate is served. It is safe for concurrent use.
type certificateFile struct{ now atomic.Pointer[certificate] }

type certificate struct {
	tls.Certificate
	pem []byte // with its chain
}

func openCertificateFile(reloader *fileReloader, flag, certFile, keyFile string) (*certificateFile, error) {
	f := &certificateFile{}
	return f, reloader.add(flag, func(contents [][]byte) error {
		cert, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return fmt.Errorf("with the key %s: %w", keyFile, err)
		}
		f.now.Store(&certificate{cert, contents[0]})
		return nil
	}, certFile, keyFile)
}

func (f *certificateFile) get() *tls.Certificate { return &f.now.Load().Certificate }
