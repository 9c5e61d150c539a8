package host

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/feature"
)

// AggregationConfig configures the certificates for requests to other servers.
type AggregationConfig struct {
	// ProxyClientCertFile and ProxyClientKeyFile are the client certificate and key that this server uses
	// as a front proxy. "" selects a certificate of the server's own front proxy CA, or no certificate if
	// RequestHeaderConfig.ClientCAFile is set.
	ProxyClientCertFile, ProxyClientKeyFile string
	// PeerCAFile contains the CA certificates of the other servers that use the same store. Requests for
	// resources that this server does not serve are forwarded to them; "" disables forwarding.
	PeerCAFile string
}

// AddFlags defines the flags of the config.
func (c *AggregationConfig) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ProxyClientCertFile, "proxy-client-cert-file", "", "client certificate of this server as a front proxy, for aggregated servers (default: issued by the server's own front proxy CA)")
	fs.StringVar(&c.ProxyClientKeyFile, "proxy-client-key-file", "", "key of --proxy-client-cert-file")
	fs.StringVar(&c.PeerCAFile, "peer-ca-file", "", "CA certificates of the other servers with the same etcd: requests for resources that this server does not serve are forwarded to a server that does, with the certificate of --proxy-client-cert-file (default: not forwarded)")
}

func (c *AggregationConfig) check(gates feature.Gates) error {
	err := checkTogether("proxy-client-cert-file", c.ProxyClientCertFile, "proxy-client-key-file", c.ProxyClientKeyFile)
	if c.PeerCAFile != "" && !gates.Enabled(feature.UnknownVersionInteroperabilityProxy) {
		err = errors.Join(err, errors.New("--peer-ca-file requires UnknownVersionInteroperabilityProxy feature to be turned on"))
	}
	return err
}

// openPeerAuthorities reads PeerCAFile. It returns nil if PeerCAFile is "".
func (c *AggregationConfig) openPeerAuthorities() (*x509.CertPool, error) {
	if c.PeerCAFile == "" {
		return nil, nil
	}
	bundle, err := os.ReadFile(c.PeerCAFile)
	if err != nil {
		return nil, fmt.Errorf("--peer-ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("--peer-ca-file: %s contains no PEM certificate", c.PeerCAFile)
	}
	return pool, nil
}
