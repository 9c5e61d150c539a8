package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"mainstay.dev/mainstay/internal/egress/kubelet"
	"mainstay.dev/mainstay/internal/egress/kubelet/kubelettest"
	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/feature"
)

// cut is a set of connections that the test can reset, as if a machine failed.
type cut struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cut) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		c.add(conn)
	}
	return conn, err
}

func (c *cut) add(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conn)
}

// relay returns the address of a listener that forwards each connection to the given address. It is a listener
// because client-go's WebSockets ignore a custom dialer.
func (c *cut) relay(t *testing.T, address string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := c.dial(context.Background(), "tcp", address)
			if err != nil {
				_ = from.Close()
				return
			}
			c.add(from)
			go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
			go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
		}
	}()
	return listener.Addr().String()
}

func (c *cut) all() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.(*net.TCPConn).SetLinger(0) // close with RST
		_ = conn.Close()
	}
}

// leakTest is a server between a client and a kubelet. The test can reset the connections on both sides.
type leakTest struct {
	kubelet           *kubelettest.Kubelet
	client            *kubelet.Client
	front             *httptest.Server
	config            *rest.Config // of clients
	toKubelet, toHere cut
	stop              context.CancelFunc
	log               *io.PipeWriter
}

func newLeakTest(t *testing.T) *leakTest {
	t.Helper()
	f := &leakTest{kubelet: kubelettest.New(t)}
	stopping, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	f.stop = stop
	lines, log := io.Pipe()
	f.log = log
	t.Cleanup(func() { _ = log.Close() })
	f.kubelet.Log = func(*http.Request) io.Reader { return lines }
	f.client = kubelet.New(kubelet.Config{Gates: feature.Defaults(), Proxy: &proxy.Proxy{Stopping: stopping}, Dial: f.toKubelet.dial})
	t.Cleanup(f.client.Close)
	at, err := f.client.ConnectionInfo(&corev1.Node{Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(f.kubelet.Port())}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	f.front = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		switch {
		case strings.HasPrefix(r.URL.Path, "/containerLogs/"):
			defer context.AfterFunc(stopping, cancel)()
			f.client.Logs(&kubelet.Log{Kubelet: at, Namespace: "a", Pod: "p", Container: "c", Query: r.URL.Query(), Follow: true}, streamError).ServeHTTP(w, r.WithContext(ctx))
		case strings.HasPrefix(r.URL.Path, "/portForward/"):
			f.client.Stream(&kubelet.Stream{Kubelet: at, Path: r.URL.Path}, streamError).ServeHTTP(w, r)
		default:
			f.client.Stream(&kubelet.Stream{Kubelet: at, Path: r.URL.Path, Query: r.URL.Query(), Streams: &kubelet.Streams{Stdin: true, Stdout: true}}, streamError).ServeHTTP(w, r)
		}
	}))
	f.front.EnableHTTP2 = false
	f.front.StartTLS()
	t.Cleanup(f.front.Close)
	f.config = &rest.Config{Host: "https://" + f.toHere.relay(t, f.front.Listener.Addr().String()), TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	return f
}

// session is an open session. Everything that is written to in can be read from out.
type session struct {
	in    io.Writer
	out   io.Reader
	leave func() // ends the client
}

func sessions() map[string]func(*testing.T, *leakTest) session {
	over := func(begin func(*leakTest, *testing.T, bool) session, webSockets bool) func(*testing.T, *leakTest) session {
		return func(t *testing.T, f *leakTest) session { return begin(f, t, webSockets) }
	}
	return map[string]func(*testing.T, *leakTest) session{
		"exec over SPDY": over((*leakTest).exec, false), "exec over WebSockets": over((*leakTest).exec, true),
		"port-forward over SPDY": over((*leakTest).forward, false), "port-forward over WebSockets": over((*leakTest).forward, true),
		"log": func(t *testing.T, f *leakTest) session { return f.follow(t) },
	}
}

func (f *leakTest) exec(t *testing.T, webSockets bool) session {
	t.Helper()
	at, err := url.Parse(f.config.Host + "/exec/a/p/c?command=cat&input=1&output=1")
	if err != nil {
		t.Fatal(err)
	}
	executor, err := remotecommand.NewSPDYExecutor(f.config, http.MethodPost, at)
	if webSockets {
		executor, err = remotecommand.NewWebSocketExecutor(f.config, http.MethodGet, at.String())
	}
	if err != nil {
		t.Fatal(err)
	}
	in, toIn := io.Pipe()
	fromOut, out := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _ = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out}) }()
	return session{toIn, fromOut, func() { cancel(); _, _ = toIn.Close(), fromOut.Close() }}
}

func (f *leakTest) forward(t *testing.T, webSockets bool) session {
	t.Helper()
	at, err := url.Parse(f.config.Host + "/portForward/a/p")
	if err != nil {
		t.Fatal(err)
	}
	dialer, err := newForwardDialer(f.config, at, webSockets)
	if err != nil {
		t.Fatal(err)
	}
	connection, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		t.Fatal(err)
	}
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
	return session{data, data, func() { _ = connection.Close() }}
}

func newForwardDialer(config *rest.Config, at *url.URL, webSockets bool) (httpstream.Dialer, error) {
	if webSockets {
		return portforward.NewSPDYOverWebsocketDialerForStreaming(at, config)
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	return spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, at), nil
}

func (f *leakTest) follow(t *testing.T) session {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.config.Host+"/containerLogs/a/p/c?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	fromOut, out := io.Pipe()
	go func() {
		answer, err := client.Do(request) // returns after the first line
		if err != nil {
			return
		}
		_, _ = io.Copy(out, answer.Body)
		_ = answer.Body.Close()
	}()
	return session{f.log, fromOut, func() { cancel(); _ = fromOut.Close() }}
}

// TestNothingLeaks checks that the server stops a session's goroutines and closes its connections when the
// client, the kubelet or the server goes away. It is not parallel, because it counts goroutines.
func TestNothingLeaks(t *testing.T) {
	for who, end := range map[string]func(*leakTest){
		"client": func(f *leakTest) { f.toHere.all() }, "kubelet": func(f *leakTest) { f.toKubelet.all() }, "server": func(f *leakTest) { f.stop() },
	} {
		for kind, begin := range sessions() {
			t.Run(kind+", "+who, func(t *testing.T) { testLeak(t, begin, end) })
		}
	}
}

func testLeak(t *testing.T, begin func(*testing.T, *leakTest) session, end func(*leakTest)) {
	f := newLeakTest(t)
	s := begin(t, f)
	t.Cleanup(s.leave)
	const text = "there and back\n"
	if _, err := io.WriteString(s.in, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(s.out, got); err != nil || string(got) != text {
		t.Fatalf("echo of the session: %q, %v; want %q", got, err, text)
	}
	here := regexp.MustCompile(`mainstay/internal/egress/(kubelet|proxy)\.|httputil\.`)
	if len(goroutines(here)) == 0 {
		t.Fatal("a session has no goroutines that are known")
	}
	end(f)
	awaitNone(t, here)
	s.leave()
	_ = f.log.Close()
	awaitNone(t, regexp.MustCompile(`kubelettest\.\(|spdystream`))
}

// awaitNone waits until no goroutine has a matching function in its stack.
func awaitNone(t *testing.T, function *regexp.Regexp) {
	t.Helper()
	eventually(t, func() error {
		if left := goroutines(function); len(left) > 0 {
			return fmt.Errorf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
		}
		return nil
	})
}

// goroutines returns the stacks that contain a matching function, except for the stack of the test itself.
func goroutines(function *regexp.Regexp) []string {
	buffer := make([]byte, 4<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	var found []string
	for stack := range strings.SplitSeq(string(buffer), "\n\n") {
		if function.MatchString(stack) && !strings.Contains(stack, "testLeak(") {
			found = append(found, stack)
		}
	}
	return found
}
