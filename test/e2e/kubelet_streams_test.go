package e2e

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"

	"mainstay.dev/mainstay/internal/egress/kubelet"
	"mainstay.dev/mainstay/internal/egress/kubelet/kubelettest"
	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/feature"
)

// streamError implements filters.ErrorWriter.
func streamError(w http.ResponseWriter, _ *http.Request, err error) {
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// streams is a server that forwards the paths /exec/..., /attach/... and /portForward/... to a kubelet.
type streams struct {
	*kubelettest.Kubelet
	client *kubelet.Client
	at     *kubelet.ConnectionInfo
	front  *httptest.Server
}

func newStreams(t *testing.T, wanted *kubelet.Streams) *streams {
	t.Helper()
	f := &streams{Kubelet: kubelettest.New(t)}
	roots := x509.NewCertPool()
	roots.AddCert(f.Certificate())
	f.client = kubelet.New(kubelet.Config{Authorities: func() *x509.CertPool { return roots }, Gates: feature.Defaults(), Proxy: &proxy.Proxy{}})
	t.Cleanup(f.client.Close)
	f.at = f.locate(t, "127.0.0.1")
	f.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.client.Stream(&kubelet.Stream{Kubelet: f.at, Path: r.URL.Path, Query: r.URL.Query(), Streams: wanted}, streamError).ServeHTTP(w, r)
	}))
	t.Cleanup(f.front.Close)
	return f
}

func (f *streams) locate(t *testing.T, host string) *kubelet.ConnectionInfo {
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

// run runs a command as kubectl does. It uses WebSockets if webSockets is true, and SPDY otherwise.
func (f *streams) run(t *testing.T, webSockets bool, path string, options remotecommand.StreamOptions) error {
	t.Helper()
	config := &rest.Config{Host: f.front.URL}
	at, err := url.Parse(f.front.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	executor, err := remotecommand.NewSPDYExecutor(config, "POST", at)
	if webSockets {
		executor, err = remotecommand.NewWebSocketExecutor(config, "GET", at.String())
	}
	if err != nil {
		t.Fatal(err)
	}
	return executor.StreamWithContext(t.Context(), options)
}

func eachProtocol(t *testing.T, test func(t *testing.T, webSockets bool)) {
	for name, webSockets := range map[string]bool{"SPDY": false, "WebSockets": true} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, webSockets) })
	}
}

// TestInput checks in both protocols that a command receives the complete input and the end of the input.
func TestInput(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, webSockets bool) {
		f := newStreams(t, &kubelet.Streams{Stdin: true, Stdout: true})
		text := strings.Repeat("abcdefgh", 1<<17)
		var out bytes.Buffer
		err := f.run(t, webSockets, "/exec/a/p/c?command=cat&input=1&output=1", remotecommand.StreamOptions{Stdin: strings.NewReader(text), Stdout: &out})
		if err != nil || out.String() != text {
			t.Errorf("%v, %d of %d bytes", err, out.Len(), len(text))
		}
	})
}

// TestExitCode checks that the client receives the exit code and the standard error of a command.
func TestExitCode(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, webSockets bool) {
		f := newStreams(t, &kubelet.Streams{Stdout: true, Stderr: true})
		var out, problems bytes.Buffer
		err := f.run(t, webSockets, "/exec/a/p/c?command=exit&command=7&output=1&error=1", remotecommand.StreamOptions{Stdout: &out, Stderr: &problems})
		if code := (exec.CodeExitError{}); !errors.As(err, &code) || code.Code != 7 || problems.String() != "it fails\n" {
			t.Errorf("exit 7: %v with standard error %q, want code 7", err, problems.String())
		}
	})
}

// sizes is a remotecommand.TerminalSizeQueue.
type sizes chan remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

// TestResize checks that a command receives the size of the client's terminal.
func TestResize(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, webSockets bool) {
		f := newStreams(t, &kubelet.Streams{Stdout: true, TTY: true})
		terminal := make(sizes, 1)
		terminal <- remotecommand.TerminalSize{Width: 80, Height: 24}
		var out bytes.Buffer
		err := f.run(t, webSockets, "/exec/a/p/c?command=size&output=1&tty=1", remotecommand.StreamOptions{Stdout: &out, Tty: true, TerminalSizeQueue: terminal})
		close(terminal)
		if err != nil || out.String() != `{"Width":80,"Height":24}`+"\n" {
			t.Errorf("size of the terminal: %v, %q; want 80x24", err, out.String())
		}
	})
}

// TestKubeletRejection checks that the client receives the reason if the kubelet rejects a request.
func TestKubeletRejection(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, webSockets bool) {
		f := newStreams(t, &kubelet.Streams{Stdout: true})
		err := f.run(t, webSockets, "/exec/a/p/gone?command=x&output=1", remotecommand.StreamOptions{Stdout: io.Discard})
		if err == nil || !strings.Contains(err.Error(), `container not found ("gone")`) {
			t.Error(err)
		}
		err = f.run(t, webSockets, "/redirect/", remotecommand.StreamOptions{Stdout: io.Discard})
		if err == nil || !strings.Contains(err.Error(), "not permitted") {
			t.Error(err)
		}
	})
}

// TestClientDisconnects checks that the kubelet's request ends when the client disconnects.
func TestClientDisconnects(t *testing.T) {
	t.Parallel()
	f := newStreams(t, &kubelet.Streams{Stdin: true, Stdout: true})
	ctx, cancel := context.WithCancel(t.Context())
	executor, err := remotecommand.NewWebSocketExecutor(&rest.Config{Host: f.front.URL}, "GET", f.front.URL+"/exec/a/p/c?command=cat&input=1&output=1")
	if err != nil {
		t.Fatal(err)
	}
	input, _ := io.Pipe()
	begun := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		close(begun)
		ended <- executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: input, Stdout: io.Discard})
	}()
	<-begun
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	f.front.Close() // does not wait for hijacked connections
	f.Close()       // waits for the kubelet's handlers
}

// TestPortForward checks that ports are forwarded over SPDY, and over SPDY inside WebSockets.
func TestPortForward(t *testing.T) {
	t.Parallel()
	f := newStreams(t, nil)
	at, err := url.Parse(f.front.URL + "/portForward/a/p")
	if err != nil {
		t.Fatal(err)
	}
	dialer, err := portforward.NewSPDYOverWebsocketDialer(at, &rest.Config{Host: f.front.URL})
	if err != nil {
		t.Fatal(err)
	}
	connection, protocol, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil || protocol != portforward.PortForwardProtocolV1Name {
		t.Fatal(protocol, err)
	}
	defer func() { _ = connection.Close() }()
	header := http.Header{}
	header.Set(corev1.StreamType, corev1.StreamTypeError)
	header.Set(corev1.PortHeader, "80")
	header.Set(corev1.PortForwardRequestIDHeader, "0")
	if _, err := connection.CreateStream(header); err != nil {
		t.Fatal(err)
	}
	header.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := connection.CreateStream(header)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("0123456789", 100_000)
	go func() { _, _ = io.WriteString(data, text); _ = data.Close() }()
	if got, err := io.ReadAll(data); err != nil || string(got) != text {
		t.Errorf("%v, %d bytes", err, len(got))
	}
}
