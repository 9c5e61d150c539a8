package egress

import (
	"context"
	"net"
	"time"
)

// Dial connects to an address, like net.Dialer.DialContext. It must be safe for concurrent use.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Networks contains the dial function for each network. A nil Dial connects directly, which is the
// default.
type Networks struct {
	// ControlPlane dials webhooks that are configured by URL, including the webhooks of
	// authentication, authorization and audit.
	ControlPlane Dial
	// Etcd dials the members of etcd.
	Etcd Dial
	// Cluster dials nodes, pods and services, including aggregated API servers.
	Cluster Dial
}

// Except returns a Dial that connects directly to address (host:port) and otherwise calls d. It
// returns nil if d is nil.
func (d Dial) Except(address string) Dial {
	if d == nil {
		return nil
	}
	return func(ctx context.Context, network, to string) (net.Conn, error) {
		if to == address {
			return direct(ctx, network, to)
		}
		return d(ctx, network, to)
	}
}

// dialTimeout is the timeout for establishing a TCP connection.
const dialTimeout = 30 * time.Second

func direct(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
}
