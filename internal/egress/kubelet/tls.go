package kubelet

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"

	"mainstay.dev/mainstay/internal/egress/proxy"
)

// nodeTransport sends requests to kubelets and verifies their certificates if Config.Authorities is
// set. Upgrade requests use HTTP/1.1; other requests use HTTP/2 if the kubelet supports it.
type nodeTransport struct {
	plain, upgrading *http.Transport
}

func (c *Client) nodeTransport(dial dialFunc) nodeTransport {
	t := nodeTransport{plain: withHTTP2(c.transport(dial, c.tlsConfig())), upgrading: c.transport(dial, c.tlsConfig())}
	if c.config.Authorities != nil {
		t.plain.DialTLSContext = c.dialVerified(dial, "h2", "http/1.1")
		t.upgrading.DialTLSContext = c.dialVerified(dial)
	}
	return t
}

// RoundTrip implements http.RoundTripper.
func (t *nodeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if proxy.IsUpgrade(r) {
		return t.upgrading.RoundTrip(r)
	}
	return t.plain.RoundTrip(r)
}

func (t *nodeTransport) close() {
	t.plain.CloseIdleConnections()
	t.upgrading.CloseIdleConnections()
}

// tlsConfig returns a TLS configuration that presents the client certificate, but does not verify
// the kubelet's certificate.
func (c *Client) tlsConfig() *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}
	if certificate := c.config.Certificate; certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate() }
	}
	return config
}

// dialVerified returns a function that connects to a kubelet and verifies its certificate for the
// dialed host, a DNS name or an IP address. It calls Config.Authorities for each connection,
// because the CA file may change.
func (c *Client) dialVerified(dial dialFunc, protocols ...string) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("parse the address of a kubelet: %w", err)
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		config := c.tlsConfig()
		config.InsecureSkipVerify = false
		config.RootCAs, config.ServerName, config.NextProtos = c.config.Authorities(), host, protocols
		secured := tls.Client(conn, config)
		ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
		defer cancel()
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return secured, nil
	}
}
