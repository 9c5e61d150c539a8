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

// Default values, the same as in net/http.
const (
	defaultStreams     = 250
	defaultTable       = 4 << 10
	defaultFrame       = 1 << 20
	defaultWindow      = 1 << 20
	defaultPingTimeout = 15 * time.Second
	minWindow          = 64<<10 - 1 // initial window of a connection, in bytes
	minFrame           = 16 << 10   // every peer accepts this size; the server sends no larger frames
	maxFrame           = 1<<24 - 1
)

// Configure makes s serve HTTP/2 with this package instead of net/http's implementation. It must be
// called before s serves connections, and modifies s.TLSConfig and s.TLSNextProto. The fields HTTP2,
// IdleTimeout, ReadTimeout, WriteTimeout, MaxHeaderBytes and ErrorLog of s apply with their
// documented meaning; each connection uses the values at its start. s.Shutdown waits for open
// streams, and s.Close aborts them. Configure returns an error if s.HTTP2.CountError is set.
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
		// In net/http, the handler provides the base context for the requests of the connection.
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
	defer func() {
		srv.mu.Lock()
		delete(srv.conns, c)
		srv.mu.Unlock()
	}()
	c.serve()
}

// start sends the preface of a connection and registers the connection for shutdown. Both happen under the
// lock, so that GOAWAY never precedes the preface.
func (srv *server) start(c *conn) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.conns[c] = struct{}{}
	c.sendPreface(srv.closing)
}

// shutdown sends GOAWAY to all clients. Each connection closes after its last stream.
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
	streams     uint32 // SETTINGS_MAX_CONCURRENT_STREAMS
	frame       uint32 // SETTINGS_MAX_FRAME_SIZE for the client's frames
	headerList  uint32 // SETTINGS_MAX_HEADER_LIST_SIZE
	decodeTable uint32
	encodeTable uint32
	connWindow  int32 // receive window of the connection, in bytes
	window      int32 // receive window of a stream, in bytes

	// Timeouts; 0 disables the timeout, except for pingTimeout.
	idle        time.Duration // after this time without streams, the connection is closed
	readIdle    time.Duration // after this time without received data, a PING is sent
	pingTimeout time.Duration // after this time without a response to a PING, the connection is closed
	writeByte   time.Duration // after this time without progress of a write, the connection is closed

	read, write time.Duration // timeouts of a stream, from its start
}

func settingsOf(hs *http.Server) settings {
	var c http.HTTP2Config
	if hs.HTTP2 != nil {
		c = *hs.HTTP2
	}
	s := settings{
		streams:     uint32(inRangeOr(c.MaxConcurrentStreams, 1, math.MaxInt32, defaultStreams)),
		frame:       uint32(inRangeOr(c.MaxReadFrameSize, minFrame, maxFrame, defaultFrame)),
		decodeTable: uint32(inRangeOr(c.MaxDecoderHeaderTableSize, 1, math.MaxInt32, defaultTable)),
		encodeTable: uint32(inRangeOr(c.MaxEncoderHeaderTableSize, 1, math.MaxInt32, defaultTable)),
		connWindow:  int32(inRangeOr(c.MaxReceiveBufferPerConnection, minWindow, math.MaxInt32, defaultWindow)),
		window:      int32(inRangeOr(c.MaxReceiveBufferPerStream, 1, math.MaxInt32, defaultWindow)),
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
	// http.Server.MaxHeaderBytes counts only the bytes of names and values. HTTP/2 adds 32 bytes for each
	// field. As in net/http, add this size for ten fields.
	header := hs.MaxHeaderBytes
	if header <= 0 {
		header = http.DefaultMaxHeaderBytes
	}
	s.headerList = uint32(min(header, math.MaxInt32)) + 10*32
	return s
}

// inRangeOr returns n if it is between low and high, and otherwise the default.
func inRangeOr(n, low, high, otherwise int) int {
	if n < low || n > high {
		return otherwise
	}
	return n
}

// weakTLS returns the reason why HTTP/2 is not permitted with the TLS parameters of a connection, or
// "" if it is permitted. RFC 9113, section 9.2, requires TLS 1.2 or later and a cipher suite with forward
// secrecy and authenticated encryption.
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

// logTo logs to the server's ErrorLog, or to the standard logger if ErrorLog is nil.
func logTo(hs *http.Server, format string, args ...any) {
	if hs.ErrorLog != nil {
		hs.ErrorLog.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}
