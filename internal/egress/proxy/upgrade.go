package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"mainstay.dev/mainstay/internal/request"
)

// errUpgraded makes httputil.ReverseProxy return after the backend has accepted an upgrade.
// Otherwise, the reverse proxy would copy the data itself, with additional goroutines, and retain
// the request.
var errUpgraded = errors.New("the backend has upgraded the connection")

// upgradeBackend forwards an upgrade request and returns the upgraded connection to the backend. If
// the backend does not upgrade, upgradeBackend writes the response itself and returns nil.
func (p *Proxy) upgradeBackend(w http.ResponseWriter, in *http.Request, backend *Backend) *upgradedConn {
	var backendConn *upgradedConn
	p.forward(w, in, backend, func(response *http.Response) error {
		if backend.ModifyResponse != nil {
			if err := backend.ModifyResponse(response); err != nil {
				return err
			}
		}
		if response.StatusCode != http.StatusSwitchingProtocols {
			return nil
		}
		connection, ok := response.Body.(io.ReadWriteCloser)
		requested, got := in.Header.Get("Upgrade"), response.Header.Get("Upgrade")
		if !ok || !strings.EqualFold(requested, got) {
			return fmt.Errorf("backend tried to switch protocol %q when %q was requested", got, requested)
		}
		backendConn = &upgradedConn{connection, response.Header}
		response.Body = http.NoBody // the connection stays open
		return errUpgraded
	})
	return backendConn
}

// upgradedConn is an upgraded connection to a backend, with the header of the response.
type upgradedConn struct {
	io.ReadWriteCloser
	header http.Header
}

// upgradeClient upgrades the client's connection. On failure, it closes the backend's connection
// and returns nil.
func upgradeClient(w http.ResponseWriter, in *http.Request, backend *Backend, backendConn *upgradedConn) net.Conn {
	header := w.Header()
	for name, values := range backendConn.header {
		header[name] = append(header[name], values...)
	}
	client, err := AcceptUpgrade(w, in, header)
	if err != nil {
		_ = backendConn.Close()
		backend.OnError(err)
		return nil
	}
	return client
}

// AcceptUpgrade hijacks the connection of a request and writes a 101 Switching Protocols response
// with the given header. Afterwards, the caller owns the connection and must not use the header of
// the request. On error, the connection is closed if it was hijacked. Writes to the connection block until the
// client reads, even if the server limits the time of blocked writes: a user may pause the output of a command.
func AcceptUpgrade(w http.ResponseWriter, r *http.Request, header http.Header) (net.Conn, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("hijack the client's connection: %w", err)
	}
	head := bytes.NewBufferString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = header.Write(head)
	head.WriteString("\r\n")
	if _, err := conn.Write(head.Bytes()); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("write the upgrade response: %w", err)
	}
	disableWriteTimeout(conn)
	request.Release(r)
	return withBuffered(conn, buffered.Reader), nil
}

// disableWriteTimeout disables the write timeout of a connection or of the connection below TLS, if there is one.
func disableWriteTimeout(conn net.Conn) {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	if limited, ok := conn.(interface{ DisableWriteTimeout() }); ok {
		limited.DisableWriteTimeout()
	}
}

// withBuffered returns a connection whose reads start with the data that the server has already
// buffered.
func withBuffered(conn net.Conn, reader *bufio.Reader) net.Conn {
	if reader.Buffered() == 0 {
		return conn
	}
	early, _ := reader.Peek(reader.Buffered())
	return &bufferedConn{conn, bytes.Clone(early)}
}

// bufferedConn is a connection with data that the client sent before it received the upgrade
// response.
type bufferedConn struct {
	net.Conn
	buffered []byte
}

// Read implements net.Conn.
func (c *bufferedConn) Read(p []byte) (int, error) {
	if len(c.buffered) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.buffered)
	c.buffered = c.buffered[n:]
	return n, nil
}

// CloseWrite closes the write direction. It returns errors.ErrUnsupported if the connection does
// not support this.
func (c *bufferedConn) CloseWrite() error {
	return closeWrite(c.Conn)
}

// halfCloser is a connection that can close its write direction.
type halfCloser interface{ CloseWrite() error }

// closeWrite closes the write direction of a connection, or returns errors.ErrUnsupported.
func closeWrite(conn any) error {
	if half, ok := conn.(halfCloser); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Join copies data between two connections in both directions. It blocks until both directions have
// ended or a connection has failed, and then closes both connections. It also closes them when
// Proxy.Stopping is canceled. MaxBytesPerSecond limits both directions.
func (p *Proxy) Join(a, b io.ReadWriteCloser) {
	b = p.Throttle(b)
	j := p.newPipe(a, b)
	go j.copyBack()
	j.copyHalf(b, a)
	<-j.backDone
	j.unregister()
	j.close()
}

// pipe copies data between two connections.
type pipe struct {
	proxy      *Proxy
	a, b       io.ReadWriteCloser
	closeOnce  sync.Once
	unregister func() bool
	backDone   chan struct{} // closed when b sends no more data
}

func (p *Proxy) newPipe(a, b io.ReadWriteCloser) *pipe {
	j := &pipe{proxy: p, a: a, b: b, backDone: make(chan struct{})}
	j.unregister = p.OnStop(j.close)
	return j
}

// close closes both connections. It may be called more than once.
func (j *pipe) close() {
	j.closeOnce.Do(func() { _, _ = j.a.Close(), j.b.Close() })
}

// copyBack copies from b to a and closes backDone.
func (j *pipe) copyBack() {
	j.copyHalf(j.a, j.b)
	close(j.backDone)
}

// copyHalf copies src to dst and then closes the write direction of dst. If copying fails, or if
// dst cannot close its write direction, copyHalf closes both connections.
func (j *pipe) copyHalf(dst io.Writer, src io.Reader) {
	_, err := j.proxy.Copy(dst, src, nil)
	if err == nil && closeWrite(dst) == nil {
		return
	}
	j.close()
}
