package host

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
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/host/http2"
	"mainstay.dev/mainstay/internal/telemetry"
)

// Limits of connections, as in kube-apiserver unless noted.
const (
	maxHeaderBytes = 1 << 20
	// readHeaderTimeout also applies to the TLS handshake. kube-apiserver allows silent connections
	// for 32 s.
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 90 * time.Second
	keepAlive         = 3 * time.Minute
	// A connection that is idle for pingIdle is pinged, and closed without an
	// answer within pingTimeout. One that cannot be written to for writeTimeout is
	// closed, over HTTP/1.1 too.
	pingIdle     = 30 * time.Second
	pingTimeout  = 15 * time.Second
	writeTimeout = 30 * time.Second
	// uploadBuffer is how much of a request's body a client may send before the
	// handler reads it. Nearly all bodies fit, so that writes do not wait for
	// the network twice.
	uploadBuffer = 256 << 10
	// frameBuffer is the maximum size of a client's frame, in bytes. A connection retains a buffer
	// of the largest received size.
	frameBuffer = 32 << 10
)

// listen binds the address before any file is opened, so that an occupied port leaves no files, and
// the port number is known. Clients that connect during the start wait. It sets h.config.Listener.
func (h *Host) listen() error {
	if h.config.Listener != nil {
		return nil
	}
	port := max(h.config.SecurePort, 0) // AnyPort is 0 to the operating system
	address := netip.AddrPortFrom(h.config.BindAddress, uint16(port)).String()
	config := net.ListenConfig{KeepAlive: keepAlive}
	if h.config.PermitPortSharing {
		config.Control = sharePort
	}
	listener, err := config.Listen(context.Background(), "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listen on %s: the port is in use by another process; stop it, or choose another port with --secure-port", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("listen on %s: this machine does not have that address; choose another one with --bind-address", address)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("listen on %s: this user may not use that port; choose one above 1023 with --secure-port", address)
	case err != nil:
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	h.config.Listener = listener
	if h.config.bindsByDefault {
		h.logger.Info("listening on all addresses, because --advertise-address is set and --bind-address is not", "advertised", h.config.AdvertiseAddress.String())
	}
	return nil
}

// defaultBindAddress returns the default listen address. A server that advertises an address to
// other machines, as in kubeadm's manifest, listens on all addresses of that IP family, as
// kube-apiserver does; IPv6 includes IPv4.
func (c Config) defaultBindAddress() netip.Addr {
	switch at := c.AdvertiseAddress; {
	case !at.IsValid() || at.IsLoopback() || at.IsUnspecified():
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case at.Unmap().Is4():
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// url returns the URL for clients on this machine. The port is right once the
// server listens.
func (h *Host) url() string {
	host, port := h.config.BindAddress, h.config.SecurePort
	if l := h.config.Listener; l != nil {
		bound, err := netip.ParseAddrPort(l.Addr().String())
		if err != nil {
			return "https://" + l.Addr().String() // no address of TCP
		}
		host, port = bound.Addr().Unmap(), int(bound.Port())
	}
	if host.IsUnspecified() {
		host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return "https://" + net.JoinHostPort(host.String(), strconv.Itoa(port))
}

// publicURL returns the URL for other machines.
func (h *Host) publicURL() string {
	if at := h.config.AdvertiseAddress; at.IsValid() {
		return "https://" + net.JoinHostPort(at.String(), strconv.Itoa(h.config.SecurePort))
	}
	return h.url()
}

// warnOfCiphers logs which of the configured cipher suites are not safe.
func (h *Host) warnOfCiphers() {
	for _, insecure := range tls.InsecureCipherSuites() {
		if slices.Contains(h.config.TLS.CipherSuites, insecure.ID) {
			h.logger.Warn(fmt.Sprintf("Use of insecure cipher '%s' detected.", insecure.Name), "flag", "--tls-cipher-suites")
		}
	}
}

func (h *Host) newHTTPServer(handler http.Handler) (*http.Server, error) {
	h.warnOfCiphers()
	server := &http.Server{
		Handler: handler,
		TLSConfig: &tls.Config{
			GetCertificate:   h.certs.get,
			MinVersion:       h.config.minTLSVersion(),
			CipherSuites:     h.config.TLS.CipherSuites,
			CurvePreferences: h.config.TLS.CurvePreferences,
			// Verified by authn.Certificates, so that a bad one gets a response.
			ClientAuth: tls.RequestClientCert,
			ClientCAs:  h.clientAuthorities(),
			// The TLS configuration after files have changed.
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return h.handshake.Load(), nil },
			NextProtos:         []string{"h2", "http/1.1"},
			// Full records from the first byte: API clients need the whole response.
			DynamicRecordSizingDisabled: true,
		},
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          h.config.MaxStreams,
			MaxReadFrameSize:              frameBuffer,
			MaxReceiveBufferPerStream:     uploadBuffer,
			MaxReceiveBufferPerConnection: uploadBuffer * min(h.config.MaxStreams, 100),
			SendPingTimeout:               pingIdle,
			PingTimeout:                   pingTimeout,
			WriteByteTimeout:              writeTimeout,
		},
		ErrorLog:    log.New(&connectionLog{requests: h.requests, logger: h.logger, kubeconfig: h.kubeconfig}, "", 0),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return authn.NewConn(ctx) },
	}
	if h.config.DisableHTTP2 {
		server.TLSConfig.NextProtos = []string{"http/1.1"}
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true)
		return server, nil
	}
	if h.config.HTTP2Server == HTTP2NetHTTP {
		return server, nil // ServeTLS sees to it
	}
	return server, http2.Configure(server)
}

// connectionLog is the ErrorLog of net/http. Failed handshakes are common (probes,
// scanners, an untrusted certificate) and only counted; that clients do not trust
// the server's certificate is logged once.
type connectionLog struct {
	requests     *telemetry.Requests
	logger       *slog.Logger
	kubeconfig   string // the administrator's
	warnDistrust sync.Once
}

func (l *connectionLog) Write(line []byte) (int, error) {
	level := slog.LevelWarn
	switch {
	case bytes.Contains(line, []byte("TLS handshake error")):
		l.requests.HandshakeError()
		level = telemetry.Verbosity(5)
		if distrusts(line) {
			l.warnDistrust.Do(func() {
				l.logger.Warn("a client does not trust this server's certificate: it may use the kubeconfig of another data directory, each of which has an authority of its own",
					"kubeconfig", l.kubeconfig, "err", string(bytes.TrimSpace(line)))
			})
		}
	case bytes.HasPrefix(line, []byte("http2: ")):
		level = telemetry.Verbosity(4)
	}
	l.logger.Log(context.Background(), level, "connection", "err", string(bytes.TrimSpace(line)))
	return len(line), nil
}

// distrusts reports whether a handshake failed because the client did not accept the server's
// certificate, in the wording of Go clients. The alert of OpenSSL with TLS 1.3 is not detectable:
// crypto/tls reports a bad record MAC.
func distrusts(line []byte) bool {
	for _, alert := range []string{"bad certificate", "unknown certificate authority", "unknown certificate"} {
		if bytes.Contains(line, []byte("remote error: tls: "+alert)) {
			return true
		}
	}
	return false
}
