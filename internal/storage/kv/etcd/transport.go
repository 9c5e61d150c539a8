package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// credentials returns the transport credentials for etcd: plain text for http endpoints, otherwise TLS.
// It returns an error if a file of the config is not readable or invalid.
func (c Config) credentials() (credentials.TransportCredentials, error) {
	if u, err := url.Parse(c.Endpoints[0]); err != nil || u.Scheme != "https" {
		return insecure.NewCredentials(), err
	}
	config, err := c.tls()
	if err != nil {
		return nil, err
	}
	return &tlsFiles{TransportCredentials: credentials.NewTLS(config), config: c}, nil
}

// tls returns a TLS configuration from the current content of the files.
func (c Config) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		bundle, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the CA of etcd: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(bundle) {
			return nil, fmt.Errorf("read the CA of etcd: %s contains no PEM certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate for etcd: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// tlsFiles are credentials that reload their files for each connection. Each member has its own tlsFiles.
type tlsFiles struct {
	credentials.TransportCredentials
	config Config
}

// ClientHandshake implements credentials.TransportCredentials.
func (f *tlsFiles) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := f.config.tls()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (f *tlsFiles) Clone() credentials.TransportCredentials {
	return &tlsFiles{TransportCredentials: f.TransportCredentials.Clone(), config: f.config}
}
