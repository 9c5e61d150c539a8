package selector_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/selector"
	"mainstay.dev/mainstay/internal/egress/selector/selectortest"
	"mainstay.dev/mainstay/internal/host/pki"
)

// write writes a file and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// clusterBy returns a configuration with the given connection for the network cluster.
func clusterBy(connection string) string {
	return "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections: [{name: cluster, connection: " + connection + "}]\n"
}

func open(t *testing.T, text string) (egress.Networks, *selector.Metrics) {
	t.Helper()
	metrics, err := selector.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	s, err := selector.Open(write(t, "egress.yaml", text), metrics)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.Networks, metrics
}

// TestInvalidConfigurations checks that invalid configuration files are rejected with an error that describes the
// problem.
func TestInvalidConfigurations(t *testing.T) {
	t.Parallel()
	pem := write(t, "empty.pem", "")
	for name, tt := range map[string]struct{ text, want string }{
		"an empty file":  {"", `kind is ""`},
		"no YAML":        {"{", "yaml"},
		"another kind":   {"kind: X\napiVersion: apiserver.k8s.io/v1beta1", `kind is "X"; it must be EgressSelectorConfiguration`},
		"another group":  {"kind: EgressSelectorConfiguration\napiVersion: v1", `apiVersion is "v1"`},
		"unknown field":  {clusterBy("{proxyProtocol: Direct, transporter: {}}"), `unknown field "transporter"`},
		"a double field": {clusterBy("{proxyProtocol: Direct, proxyProtocol: Direct}"), `already set`},
		"no protocol":    {clusterBy("{}"), `service.connection.protocol: Unsupported value: "": supported values: "Direct", "HTTPConnect", "GRPC"`},
		"direct, proxy":  {clusterBy("{proxyProtocol: Direct, transport: {}}"), `service.connection.transport: Invalid value: "direct": config must be absent for direct connect`},
		"no transport":   {clusterBy("{proxyProtocol: GRPC}"), "service.connection.transport: Required value: transport must be set for GRPC"},
		"no TCP or UDS":  {clusterBy("{proxyProtocol: HTTPConnect, transport: {}}"), "service.connection.tcp: Required value: One of TCP or UDS must be set"},
		"TCP and UDS":    {clusterBy("{proxyProtocol: HTTPConnect, transport: {tcp: {url: x}, uds: {}}}"), "TCP and UDS cannot both be set"},
		"GRPC over TCP":  {clusterBy("{proxyProtocol: GRPC, transport: {tcp: {url: x}}}"), "service.connection.uds: Required value: UDS must be set with GRPC"},
		"no socket":      {clusterBy("{proxyProtocol: GRPC, transport: {uds: {}}}"), "service.connection.udsName: Invalid value"},
		"scheme":         {clusterBy("{proxyProtocol: HTTPConnect, transport: {tcp: {url: 'ftp://x'}}}"), "supported connection protocols are http:// and https://"},
		"http and TLS":   {clusterBy("{proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://x', tlsConfig: {}}}}"), "config must not be present when using HTTP"},
		"https, no TLS":  {clusterBy("{proxyProtocol: HTTPConnect, transport: {tcp: {url: 'https://x'}}}"), "TLSConfig must be present when using HTTPS"},
		"missing files":  {clusterBy("{proxyProtocol: HTTPConnect, transport: {tcp: {url: 'https://x', tlsConfig: {caBundle: /no, clientCert: /no}}}}"), "TLS config ca bundle does not exist, service.connection.tlsConfig.clientCert"},
		"no host":        {clusterBy("{proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://'}}}"), "it has no host"},
		"no certificate": {clusterBy("{proxyProtocol: HTTPConnect, transport: {tcp: {url: 'https://x', tlsConfig: {clientCert: " + pem + ", clientKey: " + pem + "}}}}"), "failed to read key pair"},
		"a duplicate name": {"apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections: [{name: etcd, connection: {proxyProtocol: Direct}}, {name: Etcd, connection: {proxyProtocol: Direct}}]",
			`service.connection[1]: Duplicate value: "etcd"`},
		"another name": {strings.Replace(clusterBy("{proxyProtocol: Direct}"), "cluster", "master", 1), `Unsupported value: "master": supported values: "cluster", "controlplane", "etcd"`},
	} {
		if _, err := selector.Open(write(t, "egress.yaml", tt.text), nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	if _, err := selector.Open("/no/such/file", nil); err == nil || !strings.Contains(err.Error(), `unable to read egress selector configuration from "/no/such/file"`) {
		t.Error(err)
	}
}

// TestDirect checks that Dial is nil for networks that are direct or not configured.
func TestDirect(t *testing.T) {
	t.Parallel()
	networks, _ := open(t, "apiVersion: apiserver.k8s.io/v1alpha1\nkind: EgressSelectorConfiguration\negressSelections: [{name: master, connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: x}}}}, {name: cluster, connection: {proxyProtocol: Direct}}]")
	if networks.ControlPlane == nil || networks.Cluster != nil || networks.Etcd != nil {
		t.Errorf("networks %+v, want a Dial for the control plane only", networks)
	}
}

// unixListener listens on a Unix socket with a sufficiently short path.
func unixListener(t *testing.T) net.Listener {
	t.Helper()
	dir, err := os.MkdirTemp("", "egress")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// serveHTTP serves the proxy on a listener, with TLS if config is not nil.
func serveHTTP(t *testing.T, proxy http.Handler, listener net.Listener, config *tls.Config) {
	server := httptest.NewUnstartedServer(proxy)
	_ = server.Listener.Close()
	server.Listener = listener
	if config == nil {
		server.Start()
	} else {
		server.TLS = config
		server.StartTLS()
	}
	t.Cleanup(server.Close)
}

// mutualTLS returns the TLS configuration of a proxy that requires client certificates, and the
// transport configuration of its clients.
func mutualTLS(t *testing.T) (*tls.Config, string) {
	t.Helper()
	dir := t.TempDir()
	authority, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	serving, err := authority.Serving([]string{"proxy.test"})
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := authority.Issue(time.Hour, "server")
	if err != nil {
		t.Fatal(err)
	}
	client := fmt.Sprintf("{caBundle: %s, clientCert: %s, clientKey: %s, tlsServerName: proxy.test}",
		write(t, "ca.pem", string(authority.Bundle())), write(t, "cert.pem", string(cert)), write(t, "key.pem", string(key)))
	return &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool()}, client
}

// each runs a test with each kind of proxy.
func each(t *testing.T, test func(t *testing.T, proxy *selectortest.Proxy, dial egress.Dial)) {
	for name, start := range map[string]func(t *testing.T, proxy *selectortest.Proxy) (connection string){
		"HTTPConnect over HTTP": func(t *testing.T, proxy *selectortest.Proxy) string {
			listener := tcpListener(t)
			serveHTTP(t, proxy, listener, nil)
			return "{proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://" + listener.Addr().String() + "'}}}"
		},
		"HTTPConnect over HTTPS": func(t *testing.T, proxy *selectortest.Proxy) string {
			listener := tcpListener(t)
			server, client := mutualTLS(t)
			serveHTTP(t, proxy, listener, server)
			return "{proxyProtocol: HTTPConnect, transport: {tcp: {url: 'https://" + listener.Addr().String() + "', tlsConfig: " + client + "}}}"
		},
		"HTTPConnect over a Unix socket": func(t *testing.T, proxy *selectortest.Proxy) string {
			listener := unixListener(t)
			serveHTTP(t, proxy, listener, nil)
			return "{proxyProtocol: HTTPConnect, transport: {uds: {udsName: " + listener.Addr().String() + "}}}"
		},
		"GRPC": func(t *testing.T, proxy *selectortest.Proxy) string {
			listener := unixListener(t)
			proxy.Konnectivity(t, listener)
			return "{proxyProtocol: GRPC, transport: {uds: {udsName: " + listener.Addr().String() + "}}}"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := &selectortest.Proxy{}
			networks, _ := open(t, clusterBy(start(t, proxy)))
			test(t, proxy, networks.Cluster)
		})
	}
}

func tcpListener(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// TestTLSThrough checks concurrent TLS connections to a server through the proxy.
func TestTLSThrough(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, proxy *selectortest.Proxy, dial egress.Dial) {
		body := make([]byte, 1<<20)
		_, _ = rand.Read(body)
		echo := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
		defer echo.Close()
		transport := echo.Client().Transport.(*http.Transport).Clone()
		transport.DialContext = dial
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				response, err := client.Post(echo.URL, "text/plain", bytes.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = response.Body.Close() }()
				if got, err := io.ReadAll(response.Body); err != nil || !bytes.Equal(got, body) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			})
		}
		all.Wait()
		if got := proxy.Addresses(); len(got) == 0 || got[0] != echo.Listener.Addr().String() {
			t.Error(got)
		}
	})
}

// TestInvalidAddresses checks that dialing an address that the proxy cannot reach returns an error. Invalid
// addresses, including addresses that would inject another request, are rejected before the proxy is dialed.
func TestInvalidAddresses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, proxy *selectortest.Proxy, dial egress.Dial) {
		proxy.Redirect = func(string) string { return "" }
		if conn, err := dial(t.Context(), "tcp", "10.0.0.1:10250"); err == nil || !strings.Contains(err.Error(), "10.0.0.1:10250") {
			t.Error(conn, err)
		}
		for _, address := range []string{"", "x", ":443", "x:", "a b:443", "x:443 HTTP/1.1\r\nX: y\r\n\r\n", "a\x00:1", "é:1"} {
			if conn, err := dial(t.Context(), "tcp", address); err == nil || !strings.Contains(err.Error(), "invalid address") {
				t.Error(address, conn, err)
			}
		}
		if conn, err := dial(t.Context(), "udp", "x:53"); err == nil {
			t.Error(conn)
		}
		if got := proxy.Addresses(); len(got) != 1 {
			t.Error(got)
		}
	})
}

// TestMetrics checks that dials are counted by protocol and, if they fail, by stage.
func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics, err := selector.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	listener := unixListener(t)
	(&selectortest.Proxy{Redirect: func(string) string { return "" }}).Konnectivity(t, listener)
	for _, socket := range []string{listener.Addr().String(), "/no/such/socket"} {
		s, err := selector.Open(write(t, "egress.yaml", clusterBy("{proxyProtocol: GRPC, transport: {uds: {udsName: "+socket+"}}}")), metrics)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Cluster(t.Context(), "tcp", "10.0.0.1:1"); err == nil {
			t.Error("the dial succeeded")
		}
		_ = s.Close()
	}
	want := map[string]float64{
		"apiserver_egress_dialer_dial_failure_count grpc connect uds": 1,
		"apiserver_egress_dialer_dial_failure_count grpc proxy uds":   1,
		"apiserver_egress_dialer_dial_start_total grpc uds":           2,
	}
	if diff := cmp.Diff(want, counters(t, registry)); diff != "" {
		t.Error(diff)
	}
}

// counters returns the counters of a registry by name and label values.
func counters(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			found[name] = metric.GetCounter().GetValue()
		}
	}
	return found
}

// silent accepts connections on a listener, but sends no data.
func silent(t *testing.T, listener net.Listener) {
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
}

// TestSilentProxy checks that a dial through an unresponsive proxy fails when the context ends.
func TestSilentProxy(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"GRPC", "HTTPConnect"} {
		listener := unixListener(t)
		silent(t, listener)
		networks, _ := open(t, clusterBy("{proxyProtocol: "+protocol+", transport: {uds: {udsName: "+listener.Addr().String()+"}}}"))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if conn, err := networks.Cluster(ctx, "tcp", "10.0.0.1:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(protocol, conn, err)
		}
		cancel()
	}
}

// TestHostileProxy checks that the size of a CONNECT proxy's response is limited, and that data after the
// response header is rejected.
func TestHostileProxy(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2<<20): "unexpected EOF",
		"HTTP/1.1 200 OK\r\n\r\nmore":                         "unexpected data after the response",
		"HTTP/1.1 407 Who Are You\r\n\r\n":                    "code 407: 407 Who Are You",
		"SSH-2.0-x\r\n":                                       "malformed HTTP response",
	} {
		listener := unixListener(t)
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(conn, make([]byte, len("CONNECT x:1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")))
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}()
		networks, _ := open(t, clusterBy("{proxyProtocol: HTTPConnect, transport: {uds: {udsName: "+listener.Addr().String()+"}}}"))
		if conn, err := networks.Cluster(t.Context(), "tcp", "x:1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(conn, err, want)
		}
	}
}
