package host

import (
	"net"
	"sync"
	"time"
)

// writeTimeoutListener accepts connections whose writes fail if the client does not read for about the
// timeout. Otherwise, an unread HTTP/1.1 response, for example of a watch, would occupy its goroutine and
// memory forever. http.Server.WriteTimeout is not suitable, because it limits whole responses, which may
// last for hours. Upgraded connections have no timeout; see DisableWriteTimeout.
type writeTimeoutListener struct {
	net.Listener
	timeout time.Duration
	buffers *sync.Pool // of *corkBuffer
}

func newWriteTimeoutListener(l net.Listener, timeout time.Duration) writeTimeoutListener {
	return writeTimeoutListener{l, timeout, &sync.Pool{New: func() any { return new(corkBuffer) }}}
}

// Accept implements net.Listener.
func (l writeTimeoutListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &writeTimeoutConn{Conn: c, timeout: l.timeout, buffers: l.buffers}, nil
}

// writeTimeoutConn extends its write deadline with each write. If the user has set an earlier deadline, that
// deadline applies. Cork combines several writes, because crypto/tls writes each record of 16 KiB separately,
// and the system calls for a long list cost as much as its encryption.
type writeTimeoutConn struct {
	net.Conn
	timeout time.Duration
	buffers *sync.Pool // of *corkBuffer
	output  struct {
		sync.Mutex
		corked int         // number of bytes to buffer before the next write; 0 writes immediately
		buffer *corkBuffer // buffered data; nil if there is none
	}
	mu struct {
		sync.Mutex
		user  time.Time // the user's deadline; zero if there is none
		off   bool      // only the user's deadline applies
		armed time.Time // the current deadline of Conn
	}
}

// corkBuffer contains the data written since Cork.
type corkBuffer struct{ b []byte }

// maxCorkBuffer is the maximum capacity of buffers that are reused, in bytes.
const maxCorkBuffer = 256 << 10

// Cork buffers the next writes until they contain at least n bytes, and then sends them with one write to
// the connection. Writes that are only buffered return no error; the write that completes n bytes returns
// the error. Encryption does not shorten records, so n bytes of plain text always suffice. Cork is safe for
// concurrent use.
func (c *writeTimeoutConn) Cork(n int) {
	c.output.Lock()
	defer c.output.Unlock()
	c.output.corked = n
}

// Write implements net.Conn.
func (c *writeTimeoutConn) Write(p []byte) (int, error) {
	c.output.Lock()
	defer c.output.Unlock()
	if c.output.corked == 0 {
		return c.write(p)
	}
	if c.output.buffer == nil {
		c.output.buffer = c.buffers.Get().(*corkBuffer)
	}
	buf := c.output.buffer
	buf.b = append(buf.b, p...)
	if len(buf.b) < c.output.corked {
		return len(p), nil
	}
	c.output.corked, c.output.buffer = 0, nil
	_, err := c.write(buf.b)
	if buf.b = buf.b[:0]; cap(buf.b) <= maxCorkBuffer {
		c.buffers.Put(buf)
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *writeTimeoutConn) write(p []byte) (int, error) {
	if err := c.arm(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// arm sets the deadline for a write, unless the current deadline is far enough in the future, so that few
// writes need to set the timer.
func (c *writeTimeoutConn) arm() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	latest := now.Add(c.timeout)
	if c.mu.off {
		return c.setLocked(c.mu.user)
	}
	if user := c.mu.user; !user.IsZero() && user.Before(latest) {
		return c.setLocked(user)
	}
	if c.mu.armed.After(now.Add(c.timeout*2/3)) && !c.mu.armed.After(latest) {
		return nil
	}
	return c.setLocked(latest)
}

// DisableWriteTimeout makes writes block until the client reads, or until a deadline set by SetWriteDeadline.
// It is safe for concurrent use.
func (c *writeTimeoutConn) DisableWriteTimeout() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.off = true
	_ = c.setLocked(c.mu.user) // returns an error only if the connection is closed
}

func (c *writeTimeoutConn) setLocked(at time.Time) error {
	if c.mu.armed.Equal(at) {
		return nil
	}
	c.mu.armed = at
	return c.Conn.SetWriteDeadline(at)
}

// SetWriteDeadline implements net.Conn.
func (c *writeTimeoutConn) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.user = at
	return c.setLocked(at)
}

// SetDeadline implements net.Conn.
func (c *writeTimeoutConn) SetDeadline(at time.Time) error {
	if err := c.SetReadDeadline(at); err != nil {
		return err
	}
	return c.SetWriteDeadline(at)
}
