package proxy

import (
	"io"
	"net"
	"sync"
	"time"
)

// throttleChunk is the maximum number of bytes that a throttled connection transfers before it
// waits.
const throttleChunk = 32 << 10

// minThrottleWait is the shortest wait of a throttled connection. Shorter waits are postponed until
// they add up to this duration.
const minThrottleWait = 5 * time.Millisecond

// Throttle limits a connection to MaxBytesPerSecond in each direction. It returns conn itself if
// there is no limit. Closing the returned connection ends waiting reads and writes.
func (p *Proxy) Throttle(conn io.ReadWriteCloser) io.ReadWriteCloser {
	if p.MaxBytesPerSecond <= 0 {
		return conn
	}
	rate := p.MaxBytesPerSecond
	return &throttledConn{
		ReadWriteCloser: conn, chunk: int(max(1, min(rate/10, throttleChunk))), closed: make(chan struct{}),
		reads: pacer{rate: rate}, writes: pacer{rate: rate},
	}
}

// throttledConn is a connection with a limited rate. One goroutine may read while another one
// writes.
type throttledConn struct {
	io.ReadWriteCloser
	chunk         int // maximum number of bytes of one read or write
	reads, writes pacer
	closeOnce     sync.Once
	closed        chan struct{}
}

// Read implements io.Reader.
func (c *throttledConn) Read(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(p[:min(len(p), c.chunk)])
	if !c.reads.wait(n, c.closed) && err == nil {
		err = net.ErrClosed
	}
	return n, err
}

// Write implements io.Writer.
func (c *throttledConn) Write(p []byte) (written int, err error) {
	for written < len(p) {
		n, err := c.ReadWriteCloser.Write(p[written:min(len(p), written+c.chunk)])
		written += n
		if err != nil {
			return written, err
		}
		if !c.writes.wait(n, c.closed) {
			return written, net.ErrClosed
		}
	}
	return written, nil
}

// CloseWrite closes the write direction, if the connection supports it.
func (c *throttledConn) CloseWrite() error {
	return closeWrite(c.ReadWriteCloser)
}

// Close implements io.Closer.
func (c *throttledConn) Close() error {
	c.closeOnce.Do(func() { close(c.closed) })
	return c.ReadWriteCloser.Close()
}

// pacer limits the rate of one direction.
type pacer struct {
	rate int64     // bytes per second
	next time.Time // time at which the transferred bytes comply with the rate
}

// wait waits until n more bytes comply with the rate. It returns false if closed is closed first.
func (p *pacer) wait(n int, closed <-chan struct{}) bool {
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(n) * time.Second / time.Duration(p.rate))
	delay := p.next.Sub(now)
	if delay < minThrottleWait {
		return true
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-closed:
		return false
	}
}
