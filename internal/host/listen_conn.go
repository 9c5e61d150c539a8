package host

import (
	"net"
	"sync"
	"time"
)

// writeTimeoutListener accepts connections whose writes fail if the client does not read for about
// the timeout. Otherwise, an unread HTTP/1.1 response, for example of a watch, would occupy its
// goroutine and memory forever: http.Server.WriteTimeout bounds whole responses, which may last for
// hours.
type writeTimeoutListener struct {
	net.Listener
	timeout time.Duration
	buffers *sync.Pool // of *gathered
}

func newWriteTimeoutListener(l net.Listener, timeout time.Duration) writeTimeoutListener {
	return writeTimeoutListener{l, timeout, &sync.Pool{New: func() any { return new(gathered) }}}
}

// Accept implements net.Listener.
func (l writeTimeoutListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &writeTimeoutConn{Conn: c, timeout: l.timeout, buffers: l.buffers}, nil
}

// writeTimeoutConn extends its write deadline with each write. An earlier deadline of the user
// applies instead. Gather combines several writes: TLS writes each record of 16 KiB separately,
// which costs as much as the encryption of a list.
type writeTimeoutConn struct {
	net.Conn
	timeout time.Duration
	buffers *sync.Pool // of *gathered
	output  struct {
		sync.Mutex
		want int       // from how many bytes on they are written; 0: each write by itself
		held *gathered // buffered data; nil without any
	}
	mu struct {
		sync.Mutex
		user  time.Time // the user's deadline; zero without one
		armed time.Time // the deadline that Conn has
	}
}

// gathered is the data written since Gather.
type gathered struct{ b []byte }

// maxGathered is the largest buffer that is used again.
const maxGathered = 256 << 10

// Gather buffers the next writes up to n bytes and writes them together with the write that
// completes them. Encryption does not shorten records, so n bytes of plain text produce at least n
// bytes.
func (c *writeTimeoutConn) Gather(n int) {
	c.output.Lock()
	defer c.output.Unlock()
	c.output.want = n
}

// Write implements net.Conn.
func (c *writeTimeoutConn) Write(p []byte) (int, error) {
	c.output.Lock()
	defer c.output.Unlock()
	if c.output.want == 0 {
		return c.write(p)
	}
	if c.output.held == nil {
		c.output.held = c.buffers.Get().(*gathered)
	}
	held := c.output.held
	held.b = append(held.b, p...)
	if len(held.b) < c.output.want {
		return len(p), nil
	}
	c.output.want, c.output.held = 0, nil
	_, err := c.write(held.b)
	if held.b = held.b[:0]; cap(held.b) <= maxGathered {
		c.buffers.Put(held)
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

// arm sets the deadline for a write, unless the current one is far enough in the future: few writes
// need to set the timer.
func (c *writeTimeoutConn) arm() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	latest := now.Add(c.timeout)
	if user := c.mu.user; !user.IsZero() && user.Before(latest) {
		return c.setLocked(user)
	}
	if c.mu.armed.After(now.Add(c.timeout*2/3)) && !c.mu.armed.After(latest) {
		return nil
	}
	return c.setLocked(latest)
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
