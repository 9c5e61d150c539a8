package host

import (
	"crypto/tls"
	"crypto/x509"
	"sync/atomic"

	"github.com/spf13/pflag"
)

// KubeletConfig configures the certificates for connections to kubelets.
type KubeletConfig struct {
	// ClientCertFile and ClientKeyFile are this server's client certificate and its key; "" if there is
	// none.
	ClientCertFile, ClientKeyFile string
	// CAFile contains the CA certificates of kubelets; "" disables their verification.
	CAFile string
}

// AddFlags defines the flags of the config.
func (c *KubeletConfig) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ClientCertFile, "kubelet-client-certificate", "", "client certificate for kubelets (default: no certificate)")
	fs.StringVar(&c.ClientKeyFile, "kubelet-client-key", "", "key of --kubelet-client-certificate")
	fs.StringVar(&c.CAFile, "kubelet-certificate-authority", "", "CA certificates for kubelets' serving certificates (default: not verified)")
}

func (c *KubeletConfig) check() error {
	return checkTogether("kubelet-client-certificate", c.ClientCertFile, "kubelet-client-key", c.ClientKeyFile)
}

// kubeletCertificates are the current certificates for connections to kubelets.
type kubeletCertificates struct {
	client      func() (*tls.Certificate, error) // nil without a client certificate
	authorities func() *x509.CertPool            // nil without verification
}

// open reads the files, now and whenever they change.
func (c *KubeletConfig) open(reloader *fileReloader) (kubeletCertificates, error) {
	var k kubeletCertificates
	if c.ClientCertFile != "" {
		file, err := openCertificateFile(reloader, "--kubelet-client-certificate", c.ClientCertFile, c.ClientKeyFile)
		if err != nil {
			return k, err
		}
		k.client = func() (*tls.Certificate, error) { return file.get(), nil }
	}
	if c.CAFile == "" {
		return k, nil
	}
	var pool atomic.Pointer[x509.CertPool]
	k.authorities = pool.Load
	return k, reloader.add("--kubelet-certificate-authority", func(contents [][]byte) error {
		next := x509.NewCertPool()
		if !next.AppendCertsFromPEM(contents[0]) {
			return errNoCertificate
		}
		pool.Store(next)
		return nil
	}, c.CAFile)
}
