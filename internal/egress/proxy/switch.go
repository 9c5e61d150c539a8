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

// errSwitched ends the reverse proxy's part in a request that upgrades the connection: it
// would copy with four goroutines, and keep the request.
var errSwitched = errors.New("the backend switches protocols")

// askToSwitch passes on a request that upgrades the connection, and returns the response of
// a backend that does so. Any other is the client's already.
func (p *Proxy) askToSwitch(w http.ResponseWriter, in *http.Request, backend *Backend) *switched {
	var to *switched
	p.pass(w, in, backend, func(response *http.Response) error {
		if backend.Check != nil {
			if err := backend.Check(response); err != nil {
				return err
			}
		}
		if response.StatusCode != http.StatusSwitchingProtocols {
			return nil
		}
		connection, ok := response.Body.(io.ReadWriteCloser)
		asked, got := in.Header.Get("Upgrade"), response.Header.Get("Upgrade")
		if !ok || !strings.EqualFold(asked, got) {
			return fmt.Errorf("backend tried to switch protocol %q when %q was requested", got, asked)
		}
		to = &switched{connection, response.Header}
		response.Body = http.NoBody // the connection stays open
		return errSwitched
	})
	return to
}

// switched is a connection to a backend that has been upgraded.
type switched struct {
	io.ReadWriteCloser
	header http.Header
}

// switchClient upgrades the client's connection as well. It returns nil if that fails, and
// the backend's is closed.
func switchClient(w http.ResponseWriter, in *http.Request, backend *Backend, to *switched) net.Conn {
	header := w.Header()
	for name, values := range to.header {
		header[name] = append(header[name], values...)
	}
	client, err := Switch(w, in, header)
	if err != nil {
		_ = to.Close()
		backend.Fail(err)
		return nil
	}
	return client
}

// Switch hijacks the connection of a request and writes a 101 Switching Protocols response. The
// header of the request is invalid afterwards.
func Switch(w http.ResponseWriter, r *http.Request, header http.Header) (net.Conn, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("hijack the client's connection: %w", err)
	}
	head := bytes.NewBufferString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = header.Write(head)
	head.WriteString("\r\n")
	if _, err := conn.Write(head.Bytes()); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("answer that the connection is upgraded: %w", err)
	}
	request.Release(r)
	return withEarly(conn, buffered.Reader), nil
}

// withEarly returns a connection that first returns the buffered data.
func withEarly(conn net.Conn, reader *bufio.Reader) net.Conn {
	if reader.Buffered() == 0 {
		return conn
	}
	early, _ := reader.Peek(reader.Buffered())
	return &earlyConn{conn, bytes.Clone(early)}
}

// earlyConn is a connection on which the client sent data before the response.
type earlyConn struct {
	net.Conn
	early []byte
}

// Read implements net.Conn.
func (c *earlyConn) Read(p []byte) (int, error) {
	if len(c.early) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.early)
	c.early = c.early[n:]
	return n, nil
}

// CloseWrite ends one direction, where the connection can.
func (c *earlyConn) CloseWrite() error {
	if half, ok := c.Conn.(halfCloser); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// halfCloser is a connection of which one direction can end before the other.
type halfCloser interface{ CloseWrite() error }

// Join copies between two connections until both directions or one of the connections have
// ended, and closes both.
func (p *Proxy) Join(a, b io.ReadWriteCloser) {
	j := p.newJoint(a, b)
	go j.answer()
	j.carry(b, a)
	<-j.answered
	j.forget()
	j.end()
}

// joint is two connections between which is copied.
type joint struct {
	proxy    *Proxy
	a, b     io.ReadWriteCloser
	ended    sync.Once
	forget   func() bool
	answered chan struct{} // closed when b sends no more data
}

func (p *Proxy) newJoint(a, b io.ReadWriteCloser) *joint {
	j := &joint{proxy: p, a: a, b: b, answered: make(chan struct{})}
	j.forget = p.OnStop(j.end)
	return j
}

// end closes both connections.
func (j *joint) end() {
	j.ended.Do(func() { _, _ = j.a.Close(), j.b.Close() })
}

func (j *joint) answer() {
	j.carry(j.a, j.b)
	close(j.answered)
}

// carry copies one direction and forwards the end of the stream. If a connection does not support
// closing one direction, carry closes both connections.
func (j *joint) carry(dst io.Writer, src io.Reader) {
	_, err := j.proxy.Copy(dst, src, nil)
	if half, ok := dst.(halfCloser); ok && err == nil && half.CloseWrite() == nil {
		return
	}
	j.end()
}
