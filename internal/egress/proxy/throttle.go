package proxy

import (
	"io"
	"time"

	"golang.org/x/time/rate"
)

// Throttle limits each direction of a connection to Proxy.BytesPerSecond. It returns conn if there is
// no limit. The result supports concurrent reads and writes like conn.
func (p *Proxy) Throttle(conn io.ReadWriteCloser) io.ReadWriteCloser {
	if p.BytesPerSecond <= 0 {
		return conn
	}
	limiter := func() *rate.Limiter { return rate.NewLimiter(rate.Limit(p.BytesPerSecond), p.BytesPerSecond) }
	return &throttledConn{conn, limiter(), limiter()}
}

// throttledConn is a connection with a limited rate. It delays the caller after each read and write,
// for at most a second plus the delay of earlier calls.
type throttledConn struct {
	io.ReadWriteCloser
	reads, writes *rate.Limiter
}

// Read implements io.Reader. It reads at most the bytes of one second.
func (c *throttledConn) Read(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(p[:min(len(p), c.reads.Burst())])
	delay(c.reads, n)
	return n, err
}

// Write implements io.Writer.
func (c *throttledConn) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n, err := c.ReadWriteCloser.Write(p[written:min(len(p), written+c.writes.Burst())])
		written += n
		if err != nil {
			return written, err
		}
		delay(c.writes, n)
	}
	return written, nil
}

// CloseWrite closes the write direction. It returns errors.ErrUnsupported if the connection does
// not support this.
func (c *throttledConn) CloseWrite() error { return closeWrite(c.ReadWriteCloser) }

// delay blocks until the limiter permits n bytes. n must not exceed the burst.
func delay(limiter *rate.Limiter, n int) {
	if n > 0 {
		time.Sleep(limiter.ReserveN(time.Now(), n).Delay())
	}
}
