package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// certificates picks the serving certificate of a connection. It is safe for
// concurrent use.
type certificates struct {
	main tls.Certificate // our own; without a certificate where main is a file
	file *certificateFile
	sni  []sniCertificate
	mu   sync.RWMutex // guards main
}

type sniCertificate struct {
	file  *certificateFile
	names []string
}

// newCertificates reads the certificates that were brought along. Without any,
// setOwn must follow.
func newCertificates(config TLSConfig, logger *slog.Logger) (*certificates, error) {
	c := &certificates{}
	var err error
	if config.CertFile != "" {
		if c.file, err = openCertificateFile(config.CertFile, config.KeyFile, logger); err != nil {
			return nil, err
		}
	}
	for _, sni := range config.SNI {
		file, err := openCertificateFile(sni.CertFile, sni.KeyFile, logger)
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

// recheck is how often at most a certificate's files are looked at.
const recheck = 10 * time.Second

// certificateFile is a certificate with its key in two files, which are read
// again once they have changed. While they cannot be read, the last good
// certificate serves on. It is safe for concurrent use.
type certificateFile struct {
	certFile, keyFile string
	logger            *slog.Logger
	mu                struct {
		sync.Mutex
		cert    *tls.Certificate
		changed [2]time.Time
		checked time.Time
	}
}

func openCertificateFile(certFile, keyFile string, logger *slog.Logger) (*certificateFile, error) {
	f := &certificateFile{certFile: certFile, keyFile: keyFile, logger: logger}
	f.mu.changed = f.modified()
	cert, err := f.read()
	if err != nil {
		return nil, err
	}
	f.mu.cert, f.mu.checked = cert, time.Now()
	return f, nil
}

func (f *certificateFile) read() (*tls.Certificate, error) {
	cert, err := tls.LoadX509KeyPair(f.certFile, f.keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate %s with key %s: %w", f.certFile, f.keyFile, err)
	}
	return &cert, nil
}

func (f *certificateFile) get() *tls.Certificate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.mu.checked) < recheck {
		return f.mu.cert
	}
	f.mu.checked = time.Now()
	changed := f.modified()
	if changed == f.mu.changed {
		return f.mu.cert
	}
	cert, err := f.read()
	if err != nil {
		f.logger.Error("a certificate has changed but cannot be used", "err", err)
		return f.mu.cert
	}
	f.mu.cert, f.mu.changed = cert, changed
	f.logger.Info("certificate read again", "file", f.certFile)
	return cert
}

// modified are the times of the files' last changes; zero for one that is not
// there.
func (f *certificateFile) modified() [2]time.Time {
	var times [2]time.Time
	for i, file := range []string{f.certFile, f.keyFile} {
		if info, err := os.Stat(file); err == nil {
			times[i] = info.ModTime()
		}
	}
	return times
}
