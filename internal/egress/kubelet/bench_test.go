package kubelet_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"mainstay.dev/mainstay/internal/egress/kubelet"
	"mainstay.dev/mainstay/internal/egress/kubelet/kubelettest"
	"mainstay.dev/mainstay/internal/egress/proxy"
)

// BenchmarkFollow compares following a log through the server with reading it directly from the
// kubelet, both over TLS. cpu-µs/MiB is the total CPU time of the client, the server and the
// kubelet. The server forwards the data over a second TLS connection, which costs at least as much
// as the direct read.
func BenchmarkFollow(b *testing.B) {
	const size = 64 << 20
	k := kubelettest.New(b)
	k.Log = func(*http.Request) io.Reader { return io.LimitReader(zeros{}, size) }
	client := kubelet.New(kubelet.Config{Proxy: &proxy.Proxy{}})
	front := httptest.NewTLSServer(client.Logs(&kubelet.Log{
		Kubelet: &kubelet.ConnectionInfo{Host: "127.0.0.1", Port: strconv.Itoa(k.Port())}, Namespace: "a", Pod: "p", Container: "c", Follow: true,
		Query: map[string][]string{"follow": {"true"}},
	}, writeError))
	defer front.Close()
	anyone := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer anyone.CloseIdleConnections()
	for name, at := range map[string]string{"direct": k.URL + "/containerLogs/a/p/c?follow=true", "through": front.URL} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			begun := cpu(b)
			for b.Loop() {
				answer, err := anyone.Get(at)
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				if err != nil || n != size {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64((cpu(b)-begun).Microseconds())/float64(b.N*size>>20), "cpu-µs/MiB")
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
