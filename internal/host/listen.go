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
	// A connection that is idle for pingIdle is pinged, and closed if there is no response within
	// pingTimeout. A connection whose writes block for writeTimeout is closed, including HTTP/1.1
	// connections.
	pingIdle     = 30 * time.Second
	pingTimeout  = 15 * time.Second
	writeTimeout = 30 * time.Second
	// uploadBuffer is the flow-control window of a request body, in bytes. It is the maximum that a client
	// sends before the handler reads the body. Nearly all bodies fit, which saves a round trip.
	uploadBuffer = 256 << 10
	// frameBuffer is the maximum size of a client's frame, in bytes. A connection retains a buffer of
	// the largest received size.
	frameBuffer = 32 << 10
)

// listener is the listener of a server and its addresses.
type listener struct {
	net.Listener
	config *ListenConfig
}

// openListener returns the configured listener, or a new listener on the configured address. It is called
// before files are opened, so that nothing on disk changes if the port is occupied, and so that the port
// number is known. Connections wait until they are served.
func openListener(config *ListenConfig, logger *slog.Logger) (*listener, error) {
	if config.Listener != nil {
		return &listener{config.Listener, config}, nil
	}
	port := max(config.SecurePort, 0) // the operating system selects a port for 0
	address := netip.AddrPortFrom(config.BindAddress, uint16(port)).String()
	options := net.ListenConfig{KeepAlive: keepAlive}
	if config.PermitPortSharing {
		options.Control = sharePort
	}
	bound, err := options.Listen(context.Background(), "tcp", address)
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
	if config.bindAll {
		logger.Info("listening on all addresses, because --advertise-address is set and --bind-address is not", "advertised", config.AdvertiseAddress.String())
	}
	return &listener{bound, config}, nil
}

// hostPort returns the address for clients on this machine.
func (l *listener) hostPort() string {
	bound, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		return l.Addr().String() // not a TCP listener
	}
	host := bound.Addr().Unmap()
	if host.IsUnspecified() {
		host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.AddrPortFrom(host, bound.Port()).String()
}

// url returns the URL for clients on this machine.
func (l *listener) url() string { return "https://" + l.hostPort() }

// publicURL returns the URL for other machines.
func (l *listener) publicURL() string {
	if external := l.externalAddress(); external != "" {
		return "https://" + external
	}
	if addr := l.config.AdvertiseAddress; addr.IsValid() {
		return "https://" + net.JoinHostPort(addr.String(), strconv.Itoa(l.port()))
	}
	return l.url()
}

// externalAddress returns ListenConfig.ExternalHostname with a port, or "".
func (l *listener) externalAddress() string {
	external := l.config.ExternalHostname
	if external == "" {
		return ""
	}
	if _, _, err := net.SplitHostPort(external); err != nil {
		return net.JoinHostPort(external, strconv.Itoa(l.port()))
	}
	return external
}

// port returns the port number of the listener, or the configured port if the listener's address has none.
func (l *listener) port() int {
	_, text, err := net.SplitHostPort(l.hostPort())
	if err != nil {
		return l.config.SecurePort
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return l.config.SecurePort
	}
	return port
}

// warnInsecureCiphers logs the configured cipher suites that are not secure.
func (h *Host) warnInsecureCiphers() {
	for _, insecure := range tls.InsecureCipherSuites() {
		if slices.Contains(h.config.TLS.CipherSuites, insecure.ID) {
			h.logger.Warn(fmt.Sprintf("Use of insecure cipher '%s' detected.", insecure.Name), "flag", "--tls-cipher-suites")
		}
	}
}

// newHTTPServer returns a server for the listener, with TLS and HTTP/2.
func (h *Host) newHTTPServer(handler http.Handler) (*http.Server, error) {
	h.warnInsecureCiphers()
	listen := &h.config.Listen
	server := &http.Server{
		Handler: handler,
		TLSConfig: &tls.Config{
			GetCertificate:   h.identity.serving.get,
			MinVersion:       h.config.TLS.minVersion(),
			CipherSuites:     h.config.TLS.CipherSuites,
			CurvePreferences: h.config.TLS.CurvePreferences,
			// authn.Certificates verifies the certificate, so that a client with an invalid certificate
			// receives a response.
			ClientAuth:         tls.RequestClientCert,
			ClientCAs:          h.identity.clientAuthorities(),
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return h.handshakeConfig(), nil },
			NextProtos:         []string{"h2", "http/1.1"},
			// API clients need the whole response, so small first records have no advantage.
			DynamicRecordSizingDisabled: true,
		},
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          listen.MaxStreams,
			MaxReadFrameSize:              frameBuffer,
			MaxReceiveBufferPerStream:     uploadBuffer,
			MaxReceiveBufferPerConnection: uploadBuffer * min(listen.MaxStreams, 100),
			SendPingTimeout:               pingIdle,
			PingTimeout:                   pingTimeout,
			WriteByteTimeout:              writeTimeout,
		},
		ErrorLog:    log.New(&connectionLog{requests: h.metrics.requests, logger: h.logger, kubeconfig: h.kubeconfig}, "", 0),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return authn.NewConn(ctx) },
	}
	if listen.DisableHTTP2 {
		server.TLSConfig.NextProtos = []string{"http/1.1"}
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true)
		return server, nil
	}
	if listen.HTTP2Server == HTTP2NetHTTP {
		return server, nil // ServeTLS configures HTTP/2
	}
	return server, http2.Configure(server)
}

// handshakeConfig returns the TLS configuration of a new connection; nil selects the TLS configuration of
// the server. Clients send only certificates of the CAs that the handshake names. If there are control
// planes with CAs of their own, the handshake names no CA, so that clients send any certificate.
func (h *Host) handshakeConfig() *tls.Config {
	if h.fleet != nil && h.fleet.HasControlPlanes() {
		return h.anyCA.Load()
	}
	return h.handshake.Load()
}

// connectionLog is the ErrorLog of net/http. Failed handshakes are common (probes, scanners, untrusted
// certificates), so they are counted and logged only at verbosity 5. connectionLog warns once that a client
// does not trust the server's certificate.
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
// certificate, in the wording of Go clients. The alert that OpenSSL sends with TLS 1.3 cannot be detected,
// because crypto/tls reports a bad record MAC.
func distrusts(line []byte) bool {
	for _, alert := range []string{"bad certificate", "unknown certificate authority", "unknown certificate"} {
		if bytes.Contains(line, []byte("remote error: tls: "+alert)) {
			return true
		}
	}
	return false
}
