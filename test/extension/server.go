package extension

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/internal/request"
)

// Group and Version identify the served API.
const (
	Group   = "fruit.example.com"
	Version = "v1"
)

// Options configures a server.
type Options struct {
	// ServiceName is the DNS name for which the certificate is issued, such as apples.default.svc. It is
	// required.
	ServiceName string
	// FrontProxy contains the certificate authorities of trusted front proxies, in PEM. It is required.
	FrontProxy []byte
	// Plain disables aggregated discovery.
	Plain bool
}

// Server is an aggregated API server.
type Server struct {
	// CABundle contains the CA of the serving certificate, in PEM. Port is the TCP port of the server.
	CABundle []byte
	Port     int32

	options  Options
	users    *authn.RequestHeaders
	tls      *tls.Config
	store    *store
	http     *http.Server
	instead  atomic.Pointer[http.Handler]
	requests atomic.Int64
}

// Start starts a server, which stops when the test ends. It ends the test if the server cannot be started.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	authority, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := authority.Serving([]string{options.ServiceName})
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(options.FrontProxy) {
		t.Fatal("no authority of front proxies")
	}
	s := &Server{
		CABundle: authority.Bundle(), options: options, store: newStore(),
		users: &authn.RequestHeaders{
			Authorities: trusted, AllowedNames: []string{"front-proxy-client"}, UserHeaders: []string{"X-Remote-User"},
			UIDHeaders: []string{"X-Remote-Uid"}, GroupHeaders: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"},
		},
		tls: &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert, ClientCAs: trusted, NextProtos: []string{"h2", "http/1.1"}},
	}
	s.Resume(t)
	t.Cleanup(s.Kill)
	return s
}

// Resume makes a server listen again on the same port after Kill.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(s.Port))))
	if err != nil {
		t.Fatal(err)
	}
	s.Port = int32(listener.Addr().(*net.TCPAddr).Port)
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.serve), TLSConfig: s.tls.Clone(), ErrorLog: log.New(io.Discard, "", 0),
		ConnContext:       func(ctx context.Context, _ net.Conn) context.Context { return authn.NewConn(ctx) },
		ReadHeaderTimeout: 10 * time.Second,
	}
	serving := s.http
	go func() { _ = serving.ServeTLS(listener, "", "") }() // ends with Kill
}

// Kill closes the listener and all connections.
func (s *Server) Kill() { _ = s.http.Close() }

// SetHandler replaces the server's handler for all requests; nil restores it. It is safe for concurrent use.
func (s *Server) SetHandler(handler http.Handler) {
	if handler == nil {
		s.instead.Store(nil)
		return
	}
	s.instead.Store(&handler)
}

// Requests returns the number of requests that the server has received.
func (s *Server) Requests() int64 { return s.requests.Load() }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	if instead := s.instead.Load(); instead != nil {
		(*instead).ServeHTTP(w, r)
		return
	}
	headers := r.Header.Clone()
	found, err := s.users.Authenticate(r)
	if found == nil || err != nil {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	s.route(w, r, &caller{found.User, headers})
}

// caller is the user of a request, with the headers of the request.
type caller struct {
	*request.User
	headers http.Header
}
