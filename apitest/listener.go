package apitest

import (
	"context"
	"net"

	"google.golang.org/grpc/test/bufconn"
)

// connectionBuffer is how much a connection inside the process holds in each direction.
const connectionBuffer = 32 << 10

// listener accepts connections from inside the process. Its address is one that nothing
// else listens on: only dial leads to it.
type listener struct{ *bufconn.Listener }

func newListener() listener { return listener{bufconn.Listen(connectionBuffer)} }

// Addr returns an address, for a server has one in its URL and its certificate.
func (listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// dial connects to the listener, whatever the address.
func (l listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return l.DialContext(ctx)
}
