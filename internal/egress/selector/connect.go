package selector

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// maxConnectResponse is the maximum size of a proxy's response header, in bytes.
const maxConnectResponse = 1 << 20

// connectProxy connects through an HTTP CONNECT proxy. If tls is nil, the connection to the proxy is not
// encrypted.
type connectProxy struct {
	network, address string
	tls              *tls.Config
}

// newTCPProxy returns a proxy for the URL and reads its TLS files.
func newTCPProxy(t *tcpTransport) (*connectProxy, error) {
	at, err := url.Parse(t.URL)
	if err != nil {
		return nil, fmt.Errorf("invalid proxy server url %q: %w", t.URL, err)
	}
	if at.Hostname() == "" {
		return nil, fmt.Errorf("invalid proxy server url %q: it has no host", t.URL)
	}
	proxy := &connectProxy{network: "tcp", address: at.Host}
	if at.Port() == "" {
		proxy.address = net.JoinHostPort(at.Hostname(), map[string]string{"http": "80", "https": "443"}[at.Scheme])
	}
	if t.TLSConfig != nil {
		proxy.tls, err = t.TLSConfig.load(at.Hostname())
	}
	return proxy, err
}

// load reads the files of a valid configuration. host is the expected name in the proxy's certificate if
// TLSServerName is empty.
func (c *tlsConfig) load(host string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.ClientCert, c.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("failed to read key pair %s & %s, got %w", c.ClientCert, c.ClientKey, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ServerName: c.TLSServerName}
	if config.ServerName == "" {
		config.ServerName = host
	}
	if c.CABundle == "" {
		return config, nil
	}
	bundle, err := os.ReadFile(c.CABundle)
	if err != nil {
		return nil, fmt.Errorf("failed to read cert file %s, got %w", c.CABundle, err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("failed to append CA cert to the cert pool: %s has no certificate in PEM", c.CABundle)
	}
	return config, nil
}

// dial implements egress.Dial.
func (p *connectProxy) dial(ctx context.Context, _, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext(ctx, p.network, p.address)
	if err != nil {
		return nil, fmt.Errorf("dialing proxy %q failed: %w", p.address, err)
	}
	if p.tls != nil {
		secure := tls.Client(conn, p.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("dialing proxy %q failed: %w", p.address, err)
		}
		conn = secure
	}
	if err := p.connect(ctx, conn, address); err != nil {
		_ = conn.Close()
		return nil, proxyError{err}
	}
	return conn, nil
}

// connect requests a connection to an address from the proxy. It closes conn if ctx ends before the proxy has
// responded.
func (p *connectProxy) connect(ctx context.Context, conn net.Conn, address string) error {
	done := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err := p.sendConnect(conn, address)
	if !done() {
		return fmt.Errorf("CONNECT to %s via proxy %s: %w", address, p.address, context.Cause(ctx))
	}
	return err
}

func (p *connectProxy) sendConnect(conn net.Conn, address string) error {
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", address); err != nil {
		return fmt.Errorf("sending CONNECT to %s via proxy %s failed: %w", address, p.address, err)
	}
	// In TLS and HTTP, the client sends first. Therefore, the reader must not have buffered data from the
	// server.
	reader := bufio.NewReader(io.LimitReader(conn, maxConnectResponse))
	response, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fmt.Errorf("reading HTTP response from CONNECT to %s via proxy %s failed: %w", address, p.address, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("proxy error from %s while dialing %s, code %d: %s", p.address, address, response.StatusCode, response.Status)
	}
	if reader.Buffered() > 0 {
		return errors.New("unexpected data after the response of CONNECT proxy " + p.address)
	}
	return nil
}
