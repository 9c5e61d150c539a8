package apitest

import (
	"context"
	"net"

	"google.golang.org/grpc/test/bufconn"
)

// connectionBuffer is the size of the buffer for each direction of an in-process connection, in bytes.
const connectionBuffer = 32 << 10

// listener accepts in-process connections. Only its dial method can connect to it.
type listener struct{ *bufconn.Listener }

func newListener() listener { return listener{bufconn.Listen(connectionBuffer)} }

// Addr returns a placeholder address, because the server needs an address for its URL and certificate.
func (listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// dial connects to the listener. It ignores the address.
func (l listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return l.DialContext(ctx)
}
