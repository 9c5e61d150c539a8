// Package selector implements EgressSelectorConfiguration. For each network, connections are
// established directly, through an HTTP CONNECT proxy, or through konnectivity tunnels. Callers
// select the network.
package selector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/egress"
)

// Selector contains the dial functions of an EgressSelectorConfiguration. The zero value connects
// directly to all networks. Its dial functions are safe for concurrent use.
type Selector struct {
	egress.Networks
	closers []io.Closer
}

// Open reads a configuration and returns its Selector, or all errors in the configuration. It does
// not connect. As in kube-apiserver, all files are read only once. The caller must close the
// Selector. If metrics is nil, dials are not measured.
func Open(file string, metrics *Metrics) (*Selector, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("unable to read egress selector configuration from %q [%w]", file, err)
	}
	configuration, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("read the egress selector configuration %s: %w", file, err)
	}
	if err := configuration.validate().ToAggregate(); err != nil {
		return nil, fmt.Errorf("failed to validate egress selector configuration: %w", err)
	}
	s := &Selector{}
	for i := range configuration.EgressSelections {
		selection := &configuration.EgressSelections[i]
		*s.network(selection.Name), err = s.dial(&selection.Connection, metrics)
		if err != nil {
			err = fmt.Errorf("failed to create dialer for egressSelection %q: %w", selection.Name, err)
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// network returns the Dial field for a valid network name.
func (s *Selector) network(name string) *egress.Dial {
	switch strings.ToLower(name) {
	case controlPlane:
		return &s.ControlPlane
	case etcd:
		return &s.Etcd
	default:
		return &s.Cluster
	}
}

// Close closes the shared connections to konnectivity servers, and thereby all tunnels. It returns
// their joined errors.
func (s *Selector) Close() error {
	var errs []error
	for _, closer := range s.closers {
		errs = append(errs, closer.Close())
	}
	return errors.Join(errs...)
}

// dial returns the Dial for a valid connection, or nil for a direct connection.
func (s *Selector) dial(c *connection, metrics *Metrics) (egress.Dial, error) {
	switch {
	case c.ProxyProtocol == protocolDirect:
		return nil, nil
	case c.ProxyProtocol == protocolGRPC:
		tunnels, err := newTunnels(c.Transport.UDS.UDSName)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, tunnels)
		return metrics.observe(tunnels.dial, "grpc", "uds"), nil
	case c.Transport.UDS != nil:
		proxy := &connectProxy{network: "unix", address: c.Transport.UDS.UDSName}
		return metrics.observe(proxy.dial, "http_connect", "uds"), nil
	}
	proxy, err := newTCPProxy(c.Transport.TCP)
	if err != nil {
		return nil, err
	}
	return metrics.observe(proxy.dial, "http_connect", "tcp"), nil
}

// dialTimeout is the maximum time for connecting through a proxy.
const dialTimeout = 30 * time.Second

// proxyError is the error of a dial that reached the proxy but not the address.
type proxyError struct{ error }

func (e proxyError) Unwrap() error { return e.error }

// checkAddress rejects addresses other than host:port. The check prevents request injection,
// because users choose the host and the address becomes part of a request to the proxy.
func checkAddress(network, address string) error {
	if !strings.HasPrefix(network, "tcp") {
		return fmt.Errorf("dial through a proxy: unsupported network %q, must be tcp", network)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" || strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("dial through a proxy: invalid address %q", address)
	}
	return nil
}

// observe returns a Dial that validates addresses, applies dialTimeout and records metrics.
func (m *Metrics) observe(dial egress.Dial, protocol, transport string) egress.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := checkAddress(network, address); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		begun := m.begin(protocol, transport)
		conn, err := dial(ctx, network, address)
		begun.end(err)
		return conn, err
	}
}
