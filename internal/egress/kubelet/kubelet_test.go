package kubelet_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/egress/kubelet"
	"mainstay.dev/mainstay/internal/egress/kubelet/kubelettest"
	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/feature"
)

// writeError implements rest.ErrorWriter. It writes the message of the error as plain text.
func writeError(w http.ResponseWriter, _ *http.Request, err error) {
	code := http.StatusInternalServerError
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code = int(status.Status().Code)
	}
	http.Error(w, err.Error(), code)
}

type fixture struct {
	*kubelettest.Kubelet
	client *kubelet.Client
	at     *kubelet.ConnectionInfo
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Kubelet: kubelettest.New(t)}
	roots := x509.NewCertPool()
	roots.AddCert(f.Certificate())
	f.client = kubelet.New(kubelet.Config{Authorities: func() *x509.CertPool { return roots }, Gates: feature.Defaults(), Proxy: &proxy.Proxy{}})
	t.Cleanup(f.client.Close)
	f.at = f.locate(t, "127.0.0.1")
	return f
}

func (f *fixture) locate(t *testing.T, host string) *kubelet.ConnectionInfo {
	t.Helper()
	at, err := f.client.ConnectionInfo(&corev1.Node{Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(f.Port())}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestLogs checks that the options of a log request reach the kubelet, and that errors of the kubelet reach the
// client.
func TestLogs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, tt := range []struct {
		query url.Values
		code  int
		body  string
	}{
		{url.Values{"tailLines": {"5"}}, 200, "log of /containerLogs/a/p/c?tailLines=5\n"},
		{url.Values{"previous": {"true"}}, 400, "previous terminated container not found\n\n"},
	} {
		w := httptest.NewRecorder()
		f.client.Logs(&kubelet.Log{Kubelet: f.at, Namespace: "a", Pod: "p", Container: "c", Query: tt.query}, writeError).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != tt.code || w.Body.String() != tt.body {
			t.Errorf("logs with %v: %d %q, want %d %q", tt.query, w.Code, w.Body, tt.code, tt.body)
		}
	}
}

// TestVerified checks that a certificate for another host name is rejected, unless the user
// requests an unverified connection.
func TestVerified(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	elsewhere := f.locate(t, "localhost") // the certificate does not contain this name
	for unverified, want := range map[bool]int{false: 500, true: 200} {
		w := httptest.NewRecorder()
		f.client.Logs(&kubelet.Log{Kubelet: elsewhere, Namespace: "a", Pod: "p", Container: "c", InsecureSkipTLSVerify: unverified}, writeError).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != want {
			t.Errorf("unverified %t: %d %s", unverified, w.Code, w.Body)
		}
	}
}

// TestVerifiedHost checks that the certificate of a kubelet must be valid for the dialed host, including an
// IP address, and with Config.Dial.
func TestVerifiedHost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	roots := x509.NewCertPool()
	roots.AddCert(f.Certificate()) // for example.com, 127.0.0.1 and ::1
	client := kubelet.New(kubelet.Config{
		Authorities: func() *x509.CertPool { return roots }, Gates: feature.Defaults(), Proxy: &proxy.Proxy{}, AnyAddress: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, f.Listener.Addr().String())
		},
	})
	t.Cleanup(client.Close)
	for host, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "example.com": true,
		"10.1.2.3": false, "127.0.0.2": false, "fd00::1": false, "n1.example.net": false,
	} {
		at := *f.at
		at.Host = host
		echo := at.URL()
		echo.Path = "/echo/"
		requests := map[string]http.Handler{
			"log":   client.Logs(&kubelet.Log{Kubelet: &at, Namespace: "a", Pod: "p", Container: "c"}, writeError),
			"proxy": client.Forward(echo, client.Transport(), writeError),
		}
		for name, handler := range requests {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			if got := w.Code == http.StatusOK; got != want || !want && !strings.Contains(w.Body.String(), "x509: certificate is") {
				t.Errorf("%s from %s: %d %s; want success: %t", name, host, w.Code, w.Body, want)
			}
		}
		upgrade, err := http.NewRequestWithContext(t.Context(), http.MethodPost, echo.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		upgrade.Header.Set("Connection", "Upgrade")
		upgrade.Header.Set("Upgrade", "SPDY/3.1")
		response, err := client.Transport().RoundTrip(upgrade)
		if (err == nil) != want {
			t.Errorf("upgrade at %s: %v; want success: %t", host, err, want)
		}
		if err == nil {
			_ = response.Body.Close()
		}
	}
}

// TestClose checks that Close closes idle connections, and that it may be called before the first use.
func TestClose(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.StartTLS()
	defer server.Close()
	client := kubelet.New(kubelet.Config{Proxy: &proxy.Proxy{}, AnyAddress: true})
	client.Close() // before the first use
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Direct().RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	client.Close()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("the idle connection is still open after Close")
	}
}

// TestResolvedAddress checks that Config.Dial receives the address that was checked. It must not receive the
// name, which may resolve to another address later.
func TestResolvedAddress(t *testing.T) {
	t.Parallel()
	dialed := make(chan string, 1)
	client := kubelet.New(kubelet.Config{Proxy: &proxy.Proxy{}, Dial: func(_ context.Context, _, address string) (net.Conn, error) {
		dialed <- address
		return nil, errors.New("not connected")
	}})
	for host, want := range map[string]string{"192.0.2.1": "192.0.2.1:10250", "2001:db8::1": "[2001:db8::1]:10250", "127.0.0.1": "", "localhost": ""} {
		at := kubelet.ConnectionInfo{Host: host, Port: "10250"}
		for name, transport := range map[string]http.RoundTripper{"kubelet": client.Transport(), "direct": client.Direct()} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at.URL().String(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := transport.RoundTrip(r); err == nil {
				t.Fatal("a request without a connection has succeeded")
			}
			got := ""
			select {
			case got = <-dialed:
			default:
			}
			if got != want {
				t.Errorf("%s for %s: dialed %q; want %q", name, host, got, want)
			}
		}
	}
}

// TestAddresses checks that requests to pods, services and nodes cannot reach loopback, link-local and cloud
// metadata addresses, in any notation.
func TestAddresses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for address, want := range map[string]bool{
		"10.0.0.1": true, "fd00::1": true, "127.0.0.1": false, "::1": false, "169.254.169.254": false, "fe80::1": false,
		"::ffff:127.0.0.1": false, "0.0.0.0": false, "224.0.0.1": false, "fd00:ec2::254": false, "": false, "x": false,
	} {
		if got := f.client.AllowedAddress(address); got != want {
			t.Errorf("AllowedAddress(%q) = %t, want %t", address, got, want)
		}
	}
	w := httptest.NewRecorder()
	to := &url.URL{Scheme: "https", Host: "localhost:" + strconv.Itoa(f.Port()), Path: "/echo/"}
	for name, transport := range map[string]http.RoundTripper{"kubelet": f.client.Transport(), "direct": f.client.Direct()} {
		f.client.Forward(to, transport, writeError).ServeHTTP(w, httptest.NewRequest("GET", "/x/echo/", nil))
		if w.Code == 200 || len(f.Requests()) > 0 {
			t.Errorf("%s: forward to localhost: %d %s, want an error", name, w.Code, w.Body)
		}
	}
}

// TestNodeAddresses checks that the first of the configured address types for which the node has an address is
// used.
func TestNodeAddresses(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelHostname: "label"}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}},
	}
	for _, tt := range []struct{ types, want string }{
		{"", "label"}, {"InternalIP,Hostname", "10.0.0.1"}, {"ExternalIP", ""},
	} {
		var types []string
		if tt.types != "" {
			types = strings.Split(tt.types, ",")
		}
		at, err := kubelet.New(kubelet.Config{AddressTypes: types, Proxy: &proxy.Proxy{}}).ConnectionInfo(node)
		switch {
		case tt.want == "" && (err == nil || err.Error() != "no preferred addresses found; known addresses: [{InternalIP 10.0.0.1}]"):
			t.Errorf("address types %q: error %v, want an error about the preferred addresses", tt.types, err)
		case tt.want != "" && (err != nil || at.Host != tt.want || at.Port != "10250"):
			t.Errorf("address types %q: connection to %+v, error %v; want the host %s", tt.types, at, err, tt.want)
		}
	}
}
