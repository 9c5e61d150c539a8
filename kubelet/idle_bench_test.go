package kubelet_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"testing"

	"mainstay.dev/mainstay/feature"
	"mainstay.dev/mainstay/kubelet"
	"mainstay.dev/mainstay/kubelet/kubelettest"
	"mainstay.dev/mainstay/proxy"
)

// idleSessions is how many sessions are open at a time.
const idleSessions = 500

// BenchmarkIdle is what a session costs that waits, in bytes of heap and stacks: one
// through the server less one with the kubelet itself, so that what both ends keep of it
// does not count.
func BenchmarkIdle(b *testing.B) {
	for _, kind := range []struct {
		name, path string
		header     http.Header
	}{
		{"log", "/containerLogs/a/p/c?follow=true", nil},
		{"exec-spdy", "/exec/a/p/c?command=cat&input=1&output=1", http.Header{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}, "X-Stream-Protocol-Version": {"v4.channel.k8s.io"}}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			for b.Loop() {
				through, direct := measureIdle(b, true, kind.path, kind.header), measureIdle(b, false, kind.path, kind.header)
				b.ReportMetric(float64(through-direct)/idleSessions, "B/session")
			}
		})
	}
}

func measureIdle(b *testing.B, through bool, path string, header http.Header) int64 {
	k := kubelettest.New(b)
	log, lines := io.Pipe()
	defer func() { _ = lines.Close() }()
	k.Log = func(*http.Request) io.Reader { return io.MultiReader(new(oneLine), log) }
	client := kubelet.New(kubelet.Config{Proxy: &proxy.Proxy{}, Gates: feature.Defaults()})
	at := &kubelet.Location{Host: "127.0.0.1", Port: strconv.Itoa(k.Port())}
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if header == nil {
			client.Logs(&kubelet.Log{At: at, Namespace: "a", Pod: "p", Container: "c", Follow: true, Query: r.URL.Query()}, writeError).ServeHTTP(w, r)
			return
		}
		client.Stream(&kubelet.Stream{At: at, Path: r.URL.Path, Query: r.URL.Query(), Streams: &kubelet.Streams{Stdin: true, Stdout: true}}, writeError).ServeHTTP(w, r)
	}))
	defer front.Close()
	address, method := k.Listener.Addr().String(), http.MethodGet
	if through {
		address = front.Listener.Addr().String()
	}
	if header != nil {
		method = http.MethodPost
	}
	before := inUse()
	var conns []net.Conn
	for range idleSessions {
		conns = append(conns, beginIdle(b, address, method, path, header))
	}
	used := inUse() - before
	for _, conn := range conns {
		_ = conn.Close()
	}
	return used
}

// oneLine is a log that has begun.
type oneLine struct{ read bool }

func (l *oneLine) Read(p []byte) (int, error) {
	if l.read {
		return 0, io.EOF
	}
	l.read = true
	return copy(p, "begun\n"), nil
}

// beginIdle begins a session, and returns when it has.
func beginIdle(b *testing.B, address, method, path string, header http.Header) net.Conn {
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		b.Fatal(err)
	}
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\n", method, path)
	for name, values := range header {
		request += name + ": " + values[0] + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		b.Fatal(err)
	}
	line, err := bufio.NewReaderSize(conn, 16).ReadString('\n')
	if err != nil || line != "HTTP/1.1 200 OK\r\n" && line != "HTTP/1.1 101 Switching Protocols\r\n" {
		b.Fatalf("%q %v", line, err)
	}
	return conn
}

// inUse returns the bytes of heap and stacks in use.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
