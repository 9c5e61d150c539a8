package http2

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	h2 "golang.org/x/net/http2"
)

// Defaults, as net/http's.
const (
	defaultStreams     = 250
	defaultTable       = 4 << 10
	defaultFrame       = 1 << 20
	defaultWindow      = 1 << 20
	defaultPingTimeout = 15 * time.Second
	minWindow          = 64<<10 - 1 // initial window of a connection
	minFrame           = 16 << 10   // every peer accepts this size, and no larger frames are sent
	maxFrame           = 1<<24 - 1
)

// Configure makes s serve HTTP/2 with this package instead of net/http's implementation. The fields
// HTTP2, IdleTimeout, ReadTimeout, WriteTimeout, MaxHeaderBytes and ErrorLog of s apply with their
// documented meaning, with their values at the start of a connection. Shutdown lets streams end;
// Close does not.
func Configure(s *http.Server) error {
	if s.HTTP2 != nil && s.HTTP2.CountError != nil {
		return errors.New("configure HTTP/2: HTTP2Config.CountError is not supported")
	}
	if s.TLSConfig == nil {
		s.TLSConfig = new(tls.Config)
	}
	for _, proto := range []string{h2.NextProtoTLS, "http/1.1"} {
		if !slices.Contains(s.TLSConfig.NextProtos, proto) {
			s.TLSConfig.NextProtos = append(s.TLSConfig.NextProtos, proto)
		}
	}
	if s.TLSNextProto == nil {
		s.TLSNextProto = make(map[string]func(*http.Server, *tls.Conn, http.Handler))
	}
	srv := newServer()
	s.TLSNextProto[h2.NextProtoTLS] = func(hs *http.Server, c *tls.Conn, h http.Handler) {
		// The handler carries the context that a connection's requests begin with.
		ctx := context.Background()
		if base, ok := h.(interface{ BaseContext() context.Context }); ok {
			ctx = base.BaseContext()
		}
		state := c.ConnectionState()
		srv.serve(ctx, hs, c, &state, h)
	}
	s.RegisterOnShutdown(srv.shutdown)
	return nil
}

// server is shared by the connections of one http.Server.
type server struct {
	workers      workers
	writeBuffers sync.Pool // of *writeBuffer
	bodyBuffers  sync.Pool // of *bodyBuffer
	names        headerNames
	date         atomic.Pointer[cachedDate]

	mu      sync.Mutex
	conns   map[*conn]struct{}
	closing bool
}

func newServer() *server {
	return &server{
		writeBuffers: sync.Pool{New: func() any { return &writeBuffer{b: make([]byte, 0, writeBufferSize)} }},
		bodyBuffers:  sync.Pool{New: func() any { return new(bodyBuffer) }},
		conns:        make(map[*conn]struct{}),
	}
}

// serve serves a connection until it ends.
func (srv *server) serve(ctx context.Context, hs *http.Server, nc net.Conn, state *tls.ConnectionState, h http.Handler) {
	c := newConn(ctx, srv, hs, nc, state, h)
	srv.workers.open()
	defer srv.workers.close()
	srv.mu.Lock()
	srv.conns[c] = struct{}{}
	shuttingDown := srv.closing
	srv.mu.Unlock()
	defer func() {
		srv.mu.Lock()
		delete(srv.conns, c)
		srv.mu.Unlock()
	}()
	c.serve(shuttingDown)
}

// shutdown sends GOAWAY to all clients; connections end with their last stream.
func (srv *server) shutdown() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.closing = true
	for c := range srv.conns {
		c.mu.Lock()
		c.goAway()
		c.flushAsync()
		c.mu.Unlock()
	}
}

// settings are the HTTP/2 settings of an http.Server.
type settings struct {
	streams     uint32 // at a time
	frame       uint32 // bytes of one from the client
	headerList  uint32 // bytes, as HTTP/2 counts them
	decodeTable uint32
	encodeTable uint32
	connWindow  int32 // bytes that clients may send and handlers have not read
	window      int32 // of these, for one stream

	idle        time.Duration // of a connection without streams; 0 is forever, and so below
	readIdle    time.Duration // without received data
	pingTimeout time.Duration
	writeByte   time.Duration // of a write

	read, write time.Duration // of a stream
}

func settingsOf(hs *http.Server) settings {
	var c http.HTTP2Config
	if hs.HTTP2 != nil {
		c = *hs.HTTP2
	}
	s := settings{
		streams:     uint32(within(c.MaxConcurrentStreams, 1, math.MaxInt32, defaultStreams)),
		frame:       uint32(within(c.MaxReadFrameSize, minFrame, maxFrame, defaultFrame)),
		decodeTable: uint32(within(c.MaxDecoderHeaderTableSize, 1, math.MaxInt32, defaultTable)),
		encodeTable: uint32(within(c.MaxEncoderHeaderTableSize, 1, math.MaxInt32, defaultTable)),
		connWindow:  int32(within(c.MaxReceiveBufferPerConnection, minWindow, math.MaxInt32, defaultWindow)),
		window:      int32(within(c.MaxReceiveBufferPerStream, 1, math.MaxInt32, defaultWindow)),
		idle:        hs.IdleTimeout,
		readIdle:    c.SendPingTimeout,
		pingTimeout: c.PingTimeout,
		writeByte:   c.WriteByteTimeout,
		read:        hs.ReadTimeout,
		write:       hs.WriteTimeout,
	}
	if s.idle == 0 {
		s.idle = hs.ReadTimeout
	}
	if s.pingTimeout <= 0 {
		s.pingTimeout = defaultPingTimeout
	}
	// http.Server counts plain bytes; HTTP/2 adds 32 for each field. As net/http,
	// assume ten.
	header := hs.MaxHeaderBytes
	if header <= 0 {
		header = http.DefaultMaxHeaderBytes
	}
	s.headerList = uint32(min(header, math.MaxInt32)) + 10*32
	return s
}

func within(n, low, high, otherwise int) int {
	if n < low || n > high {
		return otherwise
	}
	return n
}

// weakTLS returns why a connection must not use HTTP/2 (RFC 9113, section 9.2): it requires TLS 1.2
// and a cipher suite with forward secrecy and authenticated encryption. It returns "" if HTTP/2 is
// permitted.
func weakTLS(state *tls.ConnectionState, config *http.HTTP2Config) string {
	switch {
	case state.Version < tls.VersionTLS12:
		return "TLS version is too low"
	case state.Version > tls.VersionTLS12, config != nil && config.PermitProhibitedCipherSuites:
		return ""
	}
	name := tls.CipherSuiteName(state.CipherSuite)
	if strings.HasPrefix(name, "TLS_ECDHE_") && (strings.Contains(name, "_GCM_") || strings.Contains(name, "_CHACHA20_")) {
		return ""
	}
	return "cipher suite " + name + " is prohibited"
}

// logTo logs to a server's log, or to the standard logger.
func logTo(hs *http.Server, format string, args ...any) {
	if hs.ErrorLog != nil {
		hs.ErrorLog.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}
