package http2

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

type connKey struct{}

// TestConnContext checks that the contexts of requests contain the values that http.Server.ConnContext
// adds, and that all requests of a connection share them.
func TestConnContext(t *testing.T) {
	t.Parallel()
	var conns atomic.Int64
	s := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte{'0' + byte(r.Context().Value(connKey{}).(int64))})
	}), true, func(s *http.Server) {
		s.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conns.Add(1))
		}
	})
	first, second := s.client(t), s.client(t)
	for _, tt := range []struct {
		client *http.Client
		want   string
	}{{first, "1"}, {first, "1"}, {second, "2"}, {first, "1"}} {
		resp, err := tt.client.Get(s.url)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(got) != tt.want {
			t.Errorf("a request on connection %s, want %s", got, tt.want)
		}
	}
}

// TestClose checks that http.Server.Close aborts requests in progress.
func TestClose(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	s := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		untilGone(w, r)
		close(ended)
	}), true, nil)
	resp, err := s.client(t).Get(s.url)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.http.Close(); err != nil {
		t.Error(err)
	}
	<-ended
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the client received a complete response")
	}
	_ = resp.Body.Close()
}

// TestSharedWrites checks that streams that send concurrently share writes.
func TestSharedWrites(t *testing.T) {
	t.Parallel()
	const streams = 50
	start := make(chan struct{})
	r := connect(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-start
		hello(w, r)
	}, nil)
	for i := range uint32(streams) {
		r.request(2*i+1, true)
	}
	headers := 0
	for headers < streams {
		if got := <-r.got; strings.HasPrefix(got, "HEADERS") {
			headers++
		}
	}
	r.writes.n.Store(0)
	close(start)
	for ends := 0; ends < streams; {
		if got := <-r.got; strings.HasSuffix(got, " end") {
			ends++
		}
	}
	if n := r.writes.n.Load(); n > streams/2 {
		t.Errorf("%d writes for %d streams", n, streams)
	}
}

func TestWeakTLS(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		state   tls.ConnectionState
		allowed bool
	}{
		{tls.ConnectionState{Version: tls.VersionTLS13, CipherSuite: tls.TLS_AES_128_GCM_SHA256}, true},
		{tls.ConnectionState{Version: tls.VersionTLS12, CipherSuite: tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}, true},
		{tls.ConnectionState{Version: tls.VersionTLS12, CipherSuite: tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256}, true},
		{tls.ConnectionState{Version: tls.VersionTLS12, CipherSuite: tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA}, false},
		{tls.ConnectionState{Version: tls.VersionTLS12, CipherSuite: tls.TLS_RSA_WITH_AES_128_GCM_SHA256}, false},
		{tls.ConnectionState{Version: tls.VersionTLS11}, false},
	} {
		if why := weakTLS(&tt.state, nil); (why == "") != tt.allowed {
			t.Errorf("%s: reason %q, want allowed: %t", tls.CipherSuiteName(tt.state.CipherSuite), why, tt.allowed)
		}
	}
}

func TestConfigureRejects(t *testing.T) {
	t.Parallel()
	s := &http.Server{HTTP2: &http.HTTP2Config{CountError: func(string) {}}}
	if err := Configure(s); err == nil || !strings.Contains(err.Error(), "CountError") {
		t.Errorf("Configure: %v", err)
	}
}

// TestHandlerExits checks that runtime.Goexit in a handler aborts only its stream.
func TestHandlerExits(t *testing.T) {
	t.Parallel()
	s := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/exit" {
			runtime.Goexit()
		}
		hello(w, r)
	}), true, few(1))
	c := s.client(t)
	for range 3 {
		if resp, err := c.Get(s.url + "/exit"); err == nil {
			_ = resp.Body.Close()
			t.Error("unexpected response")
		}
		resp, err := c.Get(s.url)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
}

// TestConnectionClose checks that a response with Connection: close moves the client to another
// connection, and that requests in flight complete.
func TestConnectionClose(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r := connect(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_ = http.NewResponseController(w).Flush()
			<-release
			if _, err := io.ReadAll(r.Body); err != nil && !errors.Is(err, io.EOF) {
				panic(err)
			}
		} else {
			w.Header().Set("Connection", "close")
		}
		hello(w, r)
	}, nil)
	r.post(1)
	r.await("HEADERS 1 200")
	r.request(3, true)
	r.await("GOAWAY 3 NO_ERROR")
	r.await("DATA 3 5 end")
	close(release)
	r.ok(r.frames.WriteData(1, true, []byte("x")))
	r.await("DATA 1 5 end")
	r.await("")
}
