package egress_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"mainstay.dev/mainstay/internal/egress"
)

// TestUnresponsiveConnection checks that requests use a new HTTP/2 connection after the server of the current
// one has disappeared without closing it.
func TestUnresponsiveConnection(t *testing.T) {
	t.Parallel()
	certificates := httptest.NewTLSServer(http.NotFoundHandler())
	certificates.Close()
	config := &tls.Config{Certificates: certificates.TLS.Certificates, NextProtos: []string{"h2"}}
	synctest.Test(t, func(t *testing.T) {
		var opened []*silentConn
		target := egress.Target{URL: &url.URL{Scheme: "https", Host: "example.com"}, Insecure: true}
		target.Dial = func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			opened = append(opened, &silentConn{Conn: server})
			listener := &singleListener{conn: tls.Server(opened[len(opened)-1], config)}
			go func() { _ = (&http.Server{Handler: http.NotFoundHandler()}).Serve(listener) }()
			return client, nil
		}
		transport, err := target.Transport()
		if err != nil {
			t.Fatal(err)
		}
		get := func() error {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", nil)
			if err != nil {
				return err
			}
			response, err := transport.RoundTrip(r)
			if err != nil {
				return err
			}
			return response.Body.Close()
		}
		if err := get(); err != nil {
			t.Fatal(err)
		}
		opened[0].silent.Store(true)
		if err := get(); err == nil { // without pings, it would wait forever
			t.Error("a request to a silent server succeeded")
		}
		if err := get(); err != nil || len(opened) != 2 {
			t.Errorf("next request: %v with %d connections; want a second connection", err, len(opened))
		}
		transport.CloseIdleConnections()
		for _, conn := range opened {
			_ = conn.Close()
		}
	})
}

// silentConn is the server's end of a connection. While silent is set, it discards the data of both directions.
type silentConn struct {
	net.Conn
	silent atomic.Bool
}

func (c *silentConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.silent.Load() {
			return n, err
		}
	}
}

func (c *silentConn) Write(p []byte) (int, error) {
	if c.silent.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// singleListener is a net.Listener that accepts one connection.
type singleListener struct {
	once sync.Once
	conn net.Conn
}

func (l *singleListener) Accept() (conn net.Conn, err error) {
	l.once.Do(func() { conn = l.conn })
	if conn == nil {
		err = net.ErrClosed
	}
	return conn, err
}

func (l *singleListener) Close() error   { return nil }
func (l *singleListener) Addr() net.Addr { return l.conn.LocalAddr() }
