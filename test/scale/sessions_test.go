package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/internal/egress/kubelet/kubelettest"
	"mainstay.dev/mainstay/test/testserver"
)

// idleSessions is the number of sessions that are open at the same time.
const idleSessions = 1000

// BenchmarkIdleSessions measures what an idle session with a kubelet costs in the server: bytes of heap and
// stacks, and goroutines. The server is a separate process, so that the memory of the clients and the kubelet
// is not included.
func BenchmarkIdleSessions(b *testing.B) {
	upgrade := func(protocol string, header ...string) []string {
		return append([]string{"Connection: Upgrade", "Upgrade: " + protocol}, header...)
	}
	webSocket := func(protocol string) []string {
		return upgrade("websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol: "+protocol)
	}
	for _, kind := range []struct {
		name, request string
		header        []string // nil: over HTTP/2
	}{
		{"log-http2", "GET /log?follow=true", nil},
		{"log-http1", "GET /log?follow=true", []string{}},
		{"exec-spdy", "POST /exec?command=cat&stdin=1&stdout=1", upgrade("SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io")},
		{"exec-websocket", "GET /exec?command=cat&stdin=1&stdout=1", webSocket("v5.channel.k8s.io")},
		{"portforward-spdy", "POST /portforward?ports=80", upgrade("SPDY/3.1", "X-Stream-Protocol-Version: portforward.k8s.io")},
		{"portforward-websocket", "GET /portforward?ports=80", webSocket("SPDY/3.1+portforward.k8s.io")},
	} {
		b.Run(kind.name, func(b *testing.B) {
			for b.Loop() {
				s := newSessions(b)
				before := s.usage(b)
				for range idleSessions {
					if kind.header == nil {
						s.follow(b, kind.request)
					} else {
						s.upgrade(b, kind.request, kind.header)
					}
				}
				s.awaitBegun(b)
				after := s.usage(b)
				each := func(now, then int64) float64 { return float64(now-then) / idleSessions }
				b.ReportMetric(each(after.heap, before.heap), "heap-B/session")
				b.ReportMetric(each(after.stacks, before.stacks), "stack-B/session")
				b.ReportMetric(each(after.goroutines, before.goroutines), "goroutines/session")
				s.profile(b, kind.name)
			}
		})
	}
}

// sessions is a server, and a kubelet that runs a pod.
type sessions struct {
	server  *testserver.Server
	config  *rest.Config
	client  *http.Client // over HTTP/2
	kubelet *kubelettest.Kubelet
}

func newSessions(b *testing.B) *sessions {
	b.Helper()
	s := &sessions{server: testserver.New(b, testserver.Options{}), kubelet: kubelettest.New(b)}
	end := make(chan struct{})
	b.Cleanup(func() { close(end) })
	s.kubelet.Log = func(*http.Request) io.Reader {
		return io.MultiReader(strings.NewReader("begun\n"), &silent{end})
	}
	s.kubelet.Run = func(*kubelettest.Command) int {
		<-end
		return 0
	}
	s.config = s.server.RESTConfig()
	s.config.QPS = -1
	var err error
	if s.client, err = rest.HTTPClientFor(s.config); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.client.CloseIdleConnections)
	s.createPod(b)
	return s
}

// silent is an empty log. Reads block until end is closed.
type silent struct{ end <-chan struct{} }

func (s *silent) Read([]byte) (int, error) { <-s.end; return 0, io.EOF }

// createPod creates a node for the kubelet, and on it a pod in the namespace default.
func (s *sessions) createPod(b *testing.B) {
	b.Helper()
	client, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	node, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(s.kubelet.Port())
	if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	if _, err := client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil && !strings.Contains(err.Error(), "already exists") {
		b.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

const podPath = "/api/v1/namespaces/default/pods/p"

// follow starts a session on a connection that all such sessions share. line contains a method and a path.
func (s *sessions) follow(b *testing.B, line string) {
	method, path, _ := strings.Cut(line, " ")
	request, err := http.NewRequestWithContext(b.Context(), method, s.server.URL()+podPath+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK || answer.ProtoMajor != 2 {
		b.Fatal(answer.Proto, answer.Status)
	}
	b.Cleanup(func() { _ = answer.Body.Close() })
}

// upgrade starts a session on a connection of its own. line contains a method and a path.
func (s *sessions) upgrade(b *testing.B, line string, header []string) {
	config, err := rest.TLSConfigFor(s.config)
	if err != nil {
		b.Fatal(err)
	}
	config.NextProtos = []string{"http/1.1"}
	at, err := url.Parse(s.server.URL())
	if err != nil {
		b.Fatal(err)
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", at.Host, config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	method, path, _ := strings.Cut(line, " ")
	lines := append([]string{method + " " + podPath + path + " HTTP/1.1", "Host: " + at.Host}, header...)
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		b.Fatal(err)
	}
	answer, err := bufio.NewReaderSize(conn, 16).ReadString('\n')
	if err != nil || !strings.HasPrefix(answer, "HTTP/1.1 200") && !strings.HasPrefix(answer, "HTTP/1.1 101") {
		b.Fatalf("status line of %s: %q, %v", line, answer, err)
	}
}

// awaitBegun waits until the kubelet has received all sessions.
func (s *sessions) awaitBegun(b *testing.B) {
	for deadline := time.Now().Add(time.Minute); len(s.kubelet.Requests()) < idleSessions; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("the kubelet has received %d sessions", len(s.kubelet.Requests()))
		}
	}
}

type idleUsage struct{ heap, stacks, goroutines int64 }

// usage returns the resource usage of the server after it has collected garbage and shrunk stacks.
func (s *sessions) usage(b *testing.B) idleUsage {
	var heap []byte
	for range 4 {
		heap = s.get(b, "/debug/pprof/heap?gc=1&debug=1")
	}
	number := func(text []byte, pattern string) int64 {
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		if found == nil {
			b.Fatalf("no %s", pattern)
		}
		n, err := strconv.ParseInt(string(found[1]), 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	return idleUsage{
		number(heap, `# HeapAlloc = (\d+)`), number(heap, `# Stack = (\d+)`),
		number(s.get(b, "/debug/pprof/goroutine?debug=1"), `goroutine profile: total (\d+)`),
	}
}

// profile writes profiles to the folder that SESSIONS_PROFILES names. It does nothing if this variable is not
// set.
func (s *sessions) profile(b *testing.B, name string) {
	dir := os.Getenv("SESSIONS_PROFILES")
	if dir == "" {
		return
	}
	for _, kind := range []string{"heap", "goroutine"} {
		if err := os.WriteFile(fmt.Sprintf("%s/%s.%s", dir, name, kind), s.get(b, "/debug/pprof/"+kind), 0o600); err != nil {
			b.Fatal(err)
		}
	}
}

func (s *sessions) get(b *testing.B, path string) []byte {
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.server.URL()+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var text bytes.Buffer
	if _, err := text.ReadFrom(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		b.Fatal(answer.Status, err)
	}
	return text.Bytes()
}

// BenchmarkFollowLog measures the server's CPU time per MiB of a followed log, over HTTP/2 and HTTP/1.1.
func BenchmarkFollowLog(b *testing.B) {
	const size = 256 << 20
	s := newSessions(b)
	s.kubelet.Log = func(*http.Request) io.Reader { return io.LimitReader(zeros{}, size) }
	one := s.client.Transport
	config, err := rest.TLSConfigFor(s.config)
	if err != nil {
		b.Fatal(err)
	}
	for name, transport := range map[string]http.RoundTripper{"http2": one, "http1": &http.Transport{TLSClientConfig: config}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			begun := s.cpu(b)
			for b.Loop() {
				request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, s.server.URL()+podPath+"/log?follow=true", nil)
				if err != nil {
					b.Fatal(err)
				}
				answer, err := transport.RoundTrip(request)
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				if err != nil || n != size {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric((s.cpu(b)-begun)*1e6/float64(b.N*size>>20), "server-cpu-µs/MiB")
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// cpu returns the CPU time that the server has used, in seconds.
func (s *sessions) cpu(b *testing.B) float64 {
	found := regexp.MustCompile(`(?m)^process_cpu_seconds_total (\S+)`).FindSubmatch(s.get(b, "/metrics"))
	if found == nil {
		b.Fatal("no process_cpu_seconds_total")
	}
	seconds, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return seconds
}
