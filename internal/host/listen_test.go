package host

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/egress/selector"
)

// pipes is a listener whose connections are in memory, so that synctest can be used.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{accept: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipes) dial() net.Conn {
	near, far := net.Pipe()
	p.accept <- far
	return near
}

// serveOnPipes serves a handler on in-memory connections, with the HTTP server of a host.
func serveOnPipes(t *testing.T, handler http.HandlerFunc) *pipes {
	t.Helper()
	s, err := New(Config{Storage: StorageConfig{DataDir: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	if s.dir, err = openDataDir(s.config.Storage.DataDir); err != nil {
		t.Fatal(err)
	}
	s.listener = &listener{Listener: newPipes(), config: &s.config.Listen}
	s.egress = &selector.Selector{}
	if s.identity, err = openIdentity(t.Context(), &s.config, s.dir.pki(), s.egress, s.reloader, s.metrics); err != nil {
		t.Fatal(err)
	}
	server, err := s.newHTTPServer(handler)
	if err != nil {
		t.Fatal(err)
	}
	p := newPipes()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeTLS(newWriteTimeoutListener(p, writeTimeout), "", "")
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// TestSilentConnections checks that idle and incomplete connections are closed.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	shake := func(proto string) func(t *testing.T, c net.Conn) net.Conn {
		return func(t *testing.T, c net.Conn) net.Conn {
			client := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{proto}})
			if err := client.HandshakeContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			return client
		}
	}
	for name, open := range map[string]func(t *testing.T, c net.Conn) net.Conn{
		"nothing": func(_ *testing.T, c net.Conn) net.Conn { return c },
		"half a TLS record": func(_ *testing.T, c net.Conn) net.Conn {
			_, _ = c.Write([]byte{22, 3, 1, 2, 0, 1})
			return c
		},
		"HTTP/1.1": shake("http/1.1"),
		"HTTP/2":   shake("h2"),
		"half a header": func(t *testing.T, c net.Conn) net.Conn {
			client := shake("http/1.1")(t, c)
			_, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost:")
			return client
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := serveOnPipes(t, func(http.ResponseWriter, *http.Request) {})
				start := time.Now()
				c := open(t, p.dial())
				_, _ = io.Copy(io.Discard, c) // returns when the server closes the connection
				if lasted := time.Since(start); lasted > 12*time.Second {
					t.Errorf("the connection lasted %v", lasted)
				}
				_ = c.Close()
			})
		})
	}
}

// TestUnreadResponse checks, with HTTP/1.1, that the writes of a handler fail if the client does not read, but
// not if it reads slowly.
func TestUnreadResponse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		pause time.Duration // of the client, between its reads
		fails bool
	}{
		{"slow", writeTimeout / 2, false},
		{"stalled", time.Hour, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				failed := make(chan error, 1)
				p := serveOnPipes(t, func(w http.ResponseWriter, _ *http.Request) {
					var err error
					for range 10 {
						if _, err = w.Write(bytes.Repeat([]byte("x"), 16<<10)); err != nil {
							break
						}
					}
					failed <- err
				})
				start := time.Now()
				c := tls.Client(p.dial(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
				_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				read := make(chan struct{})
				go func() {
					defer close(read)
					for buf := make([]byte, 16<<10); ; time.Sleep(tt.pause) {
						if _, err := c.Read(buf); err != nil {
							return
						}
					}
				}()
				if err := <-failed; errors.Is(err, os.ErrDeadlineExceeded) != tt.fails {
					t.Errorf("the handler got %v after %v", err, time.Since(start))
				}
				_ = c.Close()
				<-read
			})
		})
	}
}

// TestUnreadUpgrade checks that an upgraded connection has no write timeout. The output of a command must wait
// while the client is paused, for example because a user reads the output with a pager.
func TestUnreadUpgrade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 64 << 10
		ended := make(chan error, 1)
		p := serveOnPipes(t, func(w http.ResponseWriter, r *http.Request) {
			conn, err := proxy.AcceptUpgrade(w, r, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"test"}})
			if err == nil {
				_, err = conn.Write(make([]byte, size))
				err = errors.Join(err, conn.Close())
			}
			ended <- err
		})
		c := tls.Client(p.dial(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		defer c.Close()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
		reader := bufio.NewReader(c)
		response, err := http.ReadResponse(reader, nil)
		if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(response, err)
		}
		time.Sleep(time.Hour)
		n, err := io.Copy(io.Discard, reader)
		if failed := <-ended; n != size || err != nil || failed != nil {
			t.Errorf("the client received %d bytes, %v; the handler got %v", n, err, failed)
		}
	})
}

// TestWriteTimeoutConn checks that a deadline that the user has set applies if it is earlier than the write
// timeout.
func TestWriteTimeoutConn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		c := &writeTimeoutConn{Conn: far, timeout: 30 * time.Second}
		defer c.Close()
		for _, tt := range []struct {
			deadline time.Duration // 0 means no deadline
			lasts    time.Duration
		}{
			{0, 30 * time.Second}, {5 * time.Second, 5 * time.Second}, {-time.Second, 0}, {0, 30 * time.Second}, {time.Hour, 30 * time.Second},
		} {
			start := time.Now()
			var at time.Time
			if tt.deadline != 0 {
				at = start.Add(tt.deadline)
			}
			if err := c.SetDeadline(at); err != nil {
				t.Fatal(err)
			}
			_, err := c.Write([]byte("x"))
			if lasted := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || lasted != tt.lasts {
				t.Errorf("with a deadline in %v: error %v after %v, want a timeout after %v", tt.deadline, err, lasted, tt.lasts)
			}
		}
	})
}

// TestHTTP2Server checks that both HTTP/2 implementations serve requests.
func TestHTTP2Server(t *testing.T) {
	t.Parallel()
	for _, implementation := range []string{"", HTTP2Mainstay, HTTP2NetHTTP} {
		t.Run(implementation, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{Listen: ListenConfig{HTTP2Server: implementation}})
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
			defer client.CloseIdleConnections()
			resp, err := client.Get(s.URL + "/version")
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
				t.Errorf("get the version: %s %s, want HTTP/2 with code 200", resp.Proto, resp.Status)
			}
		})
	}
}

// TestBothLengths checks that the server closes the connection after a request that has both Content-Length and
// Transfer-Encoding.
func TestBothLengths(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	for _, tt := range []struct {
		name, fields, body string
		closes             bool
	}{
		{"both", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", true},
		{"the length", "Content-Length: 3\r\n", "abc", false},
		{"none", "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := tls.Dial("tcp", s.URL[len("https://"):], &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _ = fmt.Fprintf(c, "POST /version HTTP/1.1\r\nHost: a\r\n%s\r\n%s", tt.fields, tt.body)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.Close != tt.closes {
				t.Errorf("%s, close=%t, want %t", resp.Status, resp.Close, tt.closes)
			}
		})
	}
}

// TestCork checks that writes are buffered up to the requested size, and that the last of these writes returns
// the error.
func TestCork(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer near.Close()
	c := &writeTimeoutConn{Conn: far, timeout: writeTimeout, buffers: newWriteTimeoutListener(nil, writeTimeout).buffers}
	done := make(chan error, 1)
	go func() {
		c.Cork(len("one write"))
		_, first := c.Write([]byte("one "))
		_, second := c.Write([]byte("write!"))
		_, third := c.Write([]byte("another"))
		done <- errors.Join(first, second, third)
	}()
	got := make([]byte, 100)
	for _, want := range []string{"one write!", "another"} {
		n, err := near.Read(got) // a read from a pipe returns the data of one write
		if err != nil || string(got[:n]) != want {
			t.Errorf("read %q, %v; want %q", got[:n], err, want)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = far.Close()
	c.Cork(2)
	if _, err := c.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := c.Write([]byte("y")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a write to a closed connection: %v", err)
	}
}
