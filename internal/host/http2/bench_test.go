package http2

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	h2 "golang.org/x/net/http2"
)

// bothServers runs a benchmark with net/http's HTTP/2 server and with the server of this package. Clients run
// in the same process, so CPU times include the client and the server.
func bothServers(b *testing.B, h http.Handler, run func(b *testing.B, url string, newClient func() *http.Client)) {
	for _, own := range []bool{false, true} {
		name := "nethttp"
		if own {
			name = "ours"
		}
		b.Run(name, func(b *testing.B) {
			s := startServer(b, h, own, nil)
			run(b, s.url, func() *http.Client { return s.client(b) })
		})
	}
}

type testServer struct {
	url  string
	http *http.Server
	tls  *tls.Config // for clients
}

// startServer serves h over TLS on loopback until the test ends.
func startServer(tb testing.TB, h http.Handler, own bool, change func(*http.Server)) *testServer {
	tb.Helper()
	cert, pool := testCertificate()
	s := &http.Server{
		Handler:   h,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, DynamicRecordSizingDisabled: true},
		ErrorLog:  testLog(tb),
	}
	if change != nil {
		change(s)
	}
	if own {
		if err := Configure(s); err != nil {
			tb.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.ServeTLS(l, "", "")
	}()
	tb.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return &testServer{url: "https://" + l.Addr().String(), http: s,
		tls: &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}}}
}

// client returns a client that uses a single connection.
func (s *testServer) client(tb testing.TB) *http.Client {
	t := &h2.Transport{TLSClientConfig: s.tls, DisableCompression: true}
	tb.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func reportCPU(b *testing.B, before time.Duration, n int) {
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(n), "cpu-µs/op")
}

func BenchmarkGet(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 1<<10)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Audit-Id", r.Header.Get("X-Id"))
		w.Header().Set("Cache-Control", "no-cache, private")
		_, _ = w.Write(body)
	})
	for _, clients := range []int{1, 32} {
		for _, conns := range []int{1, clients} {
			if clients == 1 && conns == 1 && b.N > 1 {
				continue
			}
			b.Run(fmt.Sprintf("clients=%d,conns=%d", clients, conns), func(b *testing.B) {
				bothServers(b, h, func(b *testing.B, url string, newClient func() *http.Client) {
					pool := make([]*http.Client, conns)
					for i := range pool {
						pool[i] = newClient()
						get(b, pool[i], url)
					}
					var next atomic.Int64
					var wg sync.WaitGroup
					b.ReportAllocs()
					b.ResetTimer()
					before := cpu()
					for i := range clients {
						wg.Go(func() {
							for next.Add(1) <= int64(b.N) {
								get(b, pool[i%conns], url)
							}
						})
					}
					wg.Wait()
					reportCPU(b, before, b.N)
				})
			})
			if clients == 1 {
				break
			}
		}
	}
}

func get(b *testing.B, c *http.Client, url string) {
	resp, err := c.Get(url)
	if err != nil {
		b.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// BenchmarkFanOut sends b.N events to each of 1,000 streams on 20 connections. The CPU time is reported per
// event and stream.
func BenchmarkFanOut(b *testing.B) {
	const conns, streams = 20, 50
	event := append(bytes.Repeat([]byte("x"), 700), '\n')
	for _, burst := range []bool{true, false} {
		name := "steady"
		if burst {
			name = "burst"
		}
		b.Run(name, func(b *testing.B) {
			log := newEventLog()
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				control := http.NewResponseController(w)
				_ = control.Flush()
				for seen := 0; ; {
					to, err := log.wait(r.Context(), seen)
					if err != nil {
						return
					}
					for ; seen < to; seen++ {
						_, _ = w.Write(event)
					}
					if control.Flush() != nil {
						return
					}
				}
			})
			bothServers(b, h, func(b *testing.B, url string, newClient func() *http.Client) {
				log.reset()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				var received atomic.Int64
				for range conns {
					c := newClient()
					for range streams {
						req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
						resp, err := c.Do(req)
						if err != nil {
							b.Fatal(err)
						}
						go func() {
							buf := make([]byte, 32<<10)
							for {
								n, err := resp.Body.Read(buf)
								received.Add(int64(n))
								if err != nil {
									return
								}
							}
						}()
					}
				}
				b.ResetTimer()
				before := cpu()
				for i := range b.N {
					log.add()
					if !burst || i == b.N-1 {
						for received.Load() < int64(i+1)*conns*streams*int64(len(event)) {
							time.Sleep(50 * time.Microsecond)
						}
					}
				}
				reportCPU(b, before, b.N*conns*streams)
			})
		})
	}
}

// eventLog counts events and lets watchers wait for more.
type eventLog struct {
	mu    sync.Mutex
	n     int
	grown chan struct{}
}

func newEventLog() *eventLog { return &eventLog{grown: make(chan struct{})} }

func (l *eventLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n = 0
}

func (l *eventLog) add() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	close(l.grown)
	l.grown = make(chan struct{})
}

func (l *eventLog) wait(ctx context.Context, seen int) (int, error) {
	for {
		l.mu.Lock()
		n, grown := l.n, l.grown
		l.mu.Unlock()
		if n > seen {
			return n, nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func BenchmarkList(b *testing.B) {
	part := bytes.Repeat([]byte("y"), 32<<10)
	const parts = 40 << 20 / (32 << 10)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range parts {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	bothServers(b, h, func(b *testing.B, url string, newClient func() *http.Client) {
		c := newClient()
		b.SetBytes(parts * int64(len(part)))
		b.ResetTimer()
		before := cpu()
		for range b.N {
			get(b, c, url)
		}
		reportCPU(b, before, b.N)
	})
}
