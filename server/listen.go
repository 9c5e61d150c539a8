package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"mainstay.dev/mainstay/filters/authn"
	"mainstay.dev/mainstay/http2"
	"mainstay.dev/mainstay/telemetry"
)

// Limits of connections, as kube-apiserver's.
const (
	maxHeaderBytes    = 1 << 20
	readHeaderTimeout = 32 * time.Second
	idleTimeout       = 90 * time.Second
	keepAlive         = 3 * time.Minute
	// A client that has not been heard of for silence is asked, and left if it does
	// not answer within pingTimeout; so is one that does not take what is sent.
	silence      = 30 * time.Second
	pingTimeout  = 15 * time.Second
	writeTimeout = 30 * time.Second
	// uploadBuffer is how much of a request's body a client may send before the
	// handler reads it. Nearly all bodies fit, so that writes do not wait for
	// the network twice.
	uploadBuffer = 256 << 10
)

// listen binds the address.
func (h *Host) listen() (net.Listener, error) {
	if h.config.Listener != nil {
		return h.config.Listener, nil
	}
	address := netip.AddrPortFrom(h.config.BindAddress, uint16(h.config.SecurePort)).String()
	config := net.ListenConfig{KeepAlive: keepAlive}
	if h.config.PermitPortSharing {
		config.Control = sharePort
	}
	listener, err := config.Listen(context.Background(), "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: the port is in use by another process; stop it, or choose another port with --secure-port", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("listen on %s: this machine does not have that address; choose another one with --bind-address", address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listen on %s: this user may not use that port; choose one above 1023 with --secure-port", address)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return listener, nil
}

// url is where clients on this machine reach the server.
func (h *Host) url() string {
	if l := h.config.Listener; l != nil {
		return "https://" + l.Addr().String()
	}
	host := h.config.BindAddress
	if host.IsUnspecified() {
		host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return "https://" + net.JoinHostPort(host.String(), strconv.Itoa(h.config.SecurePort))
}

// publicURL is where other machines reach the server.
func (h *Host) publicURL() string {
	if at := h.config.AdvertiseAddress; at.IsValid() {
		return "https://" + net.JoinHostPort(at.String(), strconv.Itoa(h.config.SecurePort))
	}
	return h.url()
}

func (h *Host) newHTTPServer(handler http.Handler) (*http.Server, error) {
	server := &http.Server{
		Handler: handler,
		TLSConfig: &tls.Config{
			GetCertificate: h.certs.get,
			MinVersion:     h.config.minTLSVersion(),
			CipherSuites:   h.config.TLS.CipherSuites,
			// Verified by authn.Certificates, so that a bad one gets an answer.
			ClientAuth: tls.RequestClientCert,
			ClientCAs:  h.clientAuthorities(),
			// Instead of this, once files have changed.
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return h.handshake.Load(), nil },
			NextProtos:         []string{"h2", "http/1.1"},
			// Full records from the first byte: clients of an API want the whole
			// answer, not its beginning early.
			DynamicRecordSizingDisabled: true,
		},
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          h.config.MaxStreams,
			MaxReadFrameSize:              uploadBuffer,
			MaxReceiveBufferPerStream:     uploadBuffer,
			MaxReceiveBufferPerConnection: uploadBuffer * min(h.config.MaxStreams, 100),
			SendPingTimeout:               silence,
			PingTimeout:                   pingTimeout,
			WriteByteTimeout:              writeTimeout,
		},
		ErrorLog:    log.New(&connectionLog{requests: h.requests, logger: h.logger}, "", 0),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return authn.NewConn(ctx) },
	}
	if h.config.DisableHTTP2 {
		server.TLSConfig.NextProtos = []string{"http/1.1"}
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true)
		return server, nil
	}
	return server, http2.Configure(server)
}

// connectionLog takes what net/http logs. Clients that break off a handshake are
// everyday (probes, scanners, an untrusted certificate) and only counted.
type connectionLog struct {
	requests *telemetry.Requests
	logger   *slog.Logger
}

func (l *connectionLog) Write(line []byte) (int, error) {
	level := slog.LevelWarn
	switch {
	case bytes.Contains(line, []byte("TLS handshake error")):
		l.requests.HandshakeError()
		level = telemetry.Verbosity(5)
	case bytes.HasPrefix(line, []byte("http2: ")):
		level = telemetry.Verbosity(4)
	}
	l.logger.Log(context.Background(), level, "connection", "err", string(bytes.TrimSpace(line)))
	return len(line), nil
}
