package host

import (
	"net"
	"syscall"

	"mainstay.dev/mainstay/internal/limits/processor"
)

// bulkBytes is from how many bytes on a write is bulk: most of a full TLS record.
const bulkBytes = 8 << 10

// bulkListener accepts connections whose large writes use CPU slots. It is below TLS, so a slot
// covers one write of one or more records; their encryption happens before.
type bulkListener struct {
	net.Listener
	turns *processor.Turns
}

// Accept implements net.Listener.
func (l bulkListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &bulkConn{Conn: c, turns: l.turns}, nil
}

// bulkConn is a connection of a bulkListener. Like TLS, it is for one writer at a time.
type bulkConn struct {
	net.Conn
	turns *processor.Turns
	bulk  *bulkWriter // made by the first write that is bulk
}

// Write implements net.Conn.
func (c *bulkConn) Write(p []byte) (int, error) {
	if len(p) < bulkBytes {
		return c.Conn.Write(p)
	}
	if c.bulk == nil {
		c.bulk = newBulkWriter(c.Conn, c.turns)
	}
	n, err := c.bulk.write(p)
	if n == len(p) || err != nil {
		return n, err
	}
	m, err := c.Conn.Write(p[n:]) // returns the error with its message
	return n + m, err
}

// bulkWriter writes with CPU slots. It releases the slot while the socket is full, so a slow client
// does not delay others.
type bulkWriter struct {
	turns *processor.Turns
	turn  processor.Turn
	// client is the other end's address and port, which have a user's share.
	client string
	raw    syscall.RawConn // nil: not known
	step   func(fd uintptr) bool
	rest   []byte
}

func newBulkWriter(c net.Conn, turns *processor.Turns) *bulkWriter {
	w := &bulkWriter{turns: turns, client: c.RemoteAddr().String()}
	w.step = w.writeSome
	if socket, ok := c.(syscall.Conn); ok {
		w.raw, _ = socket.SyscallConn() // without, it writes as everyone does
	}
	return w
}

// write writes p as far as it can: without an error, the rest is for others to try.
func (w *bulkWriter) write(p []byte) (int, error) {
	if w.raw == nil {
		return 0, nil
	}
	defer w.turn.End()
	w.rest = p
	err := w.raw.Write(w.step)
	n := len(p) - len(w.rest)
	w.rest = nil
	return n, err
}

// writeSome writes until the socket is full, and reports whether it is done. The network poller
// calls it again when the socket is writable.
func (w *bulkWriter) writeSome(fd uintptr) bool {
	w.turns.Begin(&w.turn, processor.Bulk, w.client)
	for len(w.rest) > 0 {
		n, full, err := writeNow(fd, w.rest)
		if full {
			w.turn.End()
			return false
		}
		if err != nil || n <= 0 {
			return true
		}
		w.rest = w.rest[n:]
	}
	return true
}
