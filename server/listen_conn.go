package server

import (
	"net"
	"sync"
	"time"
)

// writeTimeoutListener accepts connections whose writes fail when the client does
// not read for about the timeout. Without it a response over HTTP/1.1 that is not
// read, a watch's for one, would hold its goroutine and memory for ever:
// http.Server.WriteTimeout bounds whole responses, which may last for hours.
type writeTimeoutListener struct {
	net.Listener
	timeout time.Duration
	corks   *sync.Pool
}

func newWriteTimeoutListener(l net.Listener, timeout time.Duration) writeTimeoutListener {
	return writeTimeoutListener{l, timeout, &sync.Pool{New: func() any { return new(corked) }}}
}

// Accept implements net.Listener.
func (l writeTimeoutListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &writeTimeoutConn{Conn: c, timeout: l.timeout, corks: l.corks}, nil
}

// writeTimeoutConn is a connection whose deadline for writing moves on with each
// write. A deadline that is set by its user and comes earlier holds instead.
//
// Writes between Cork and Uncork are one write: TLS writes each of its records, of 16
// KiB, by itself, which costs a list as much as encryption does.
type writeTimeoutConn struct {
	net.Conn
	timeout time.Duration
	corks   *sync.Pool // of *corked
	output  struct {
		sync.Mutex // held while bytes are written, which keeps records in their order
		held       *corked
	}
	mu struct {
		sync.Mutex
		user  time.Time // the deadline set by the user; zero: none
		armed time.Time // the deadline that Conn has
	}
}

// corked is what has been written since Cork.
type corked struct{ b []byte }

// Cork keeps what is written until Uncork. Only one goroutine may cork a connection at a
// time; what others write meanwhile is kept in its place.
func (c *writeTimeoutConn) Cork() {
	c.output.Lock()
	defer c.output.Unlock()
	c.output.held = c.corks.Get().(*corked)
}

// Uncork writes what has been kept.
func (c *writeTimeoutConn) Uncork() error {
	c.output.Lock()
	defer c.output.Unlock()
	held := c.output.held
	c.output.held = nil
	_, err := c.write(held.b)
	held.b = held.b[:0]
	c.corks.Put(held)
	return err
}

// Write implements net.Conn.
func (c *writeTimeoutConn) Write(p []byte) (int, error) {
	c.output.Lock()
	defer c.output.Unlock()
	if held := c.output.held; held != nil {
		held.b = append(held.b, p...)
		return len(p), nil
	}
	return c.write(p)
}

func (c *writeTimeoutConn) write(p []byte) (int, error) {
	if err := c.arm(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// arm sets the deadline for a write, unless the one there is leaves it most of the
// timeout: few writes have to touch the timer.
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
