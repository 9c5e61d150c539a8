package host

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync/atomic"
)

// kubelets is how this server and kubelets know each other.
type kubelets struct {
	// certificate and authorities are nil where no files are named.
	certificate func() (*tls.Certificate, error)
	authorities func() *x509.CertPool
}

// openKubelets loads the client certificate for kubelets, and their authorities.
func (h *Host) openKubelets() error {
	if h.config.KubeletClientCertFile != "" {
		file, err := openCertificateFile(h.reloader, "--kubelet-client-certificate", h.config.KubeletClientCertFile, h.config.KubeletClientKeyFile)
		if err != nil {
			return err
		}
		h.kubelets.certificate = func() (*tls.Certificate, error) { return file.get(), nil }
	}
	if h.config.KubeletCAFile == "" {
		return nil
	}
	var pool atomic.Pointer[x509.CertPool]
	h.kubelets.authorities = pool.Load
	return h.reloader.add("--kubelet-certificate-authority", func(contents [][]byte) error {
		next := x509.NewCertPool()
		if !next.AppendCertsFromPEM(contents[0]) {
			return errors.New("it has no certificate in PEM")
		}
		pool.Store(next)
		return nil
	}, h.config.KubeletCAFile)
}
