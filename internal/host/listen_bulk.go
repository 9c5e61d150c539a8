package host

import (
	"net"
	"syscall"

	"mainstay.dev/mainstay/internal/limits/processor"
)

// bulkBytes is from how many bytes on a write is bulk: most of a full TLS record.
const bulkBytes = 8 << 10

// bulkListener accepts connections on which what is large is sent in turns. It is below TLS,
// so that a turn is one write, of a record or of some that were gathered: their encryption
// comes before, by one who was just sent and will have to wait.
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
	m, err := c.Conn.Write(p[n:]) // meets what has gone wrong, and words it
	return n + m, err
}

// bulkWriter writes in turns. It has none while the socket is full: a client that does not
// read holds up nobody.
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

// writeSome writes what the socket takes, and reports whether that is all that can be done.
// The network's poller has it called again when the socket takes more.
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
