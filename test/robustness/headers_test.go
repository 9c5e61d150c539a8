package robustness

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/test/testserver"
)

// protocols returns the HTTP protocols that the server supports. The value is true for HTTP/2.
func protocols() map[string]bool { return map[string]bool{"HTTP/1.1": false, "HTTP/2": true} }

// peer returns an HTTP client with the administrator's credentials and its own connections.
func peer(t *testing.T, srv *testserver.Server, http2 bool) *http.Client {
	t.Helper()
	config, err := rest.TLSConfigFor(srv.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: http2, DisableCompression: true}
	if !http2 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// memory returns the size of the server's heap after a garbage collection, and the total size of its
// allocations since the start, in bytes.
func memory(t *testing.T, srv *testserver.Server, c *http.Client) (held, total int64) {
	t.Helper()
	resp, err := c.Get(srv.URL() + "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	profile, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, stats, _ := strings.Cut(string(profile), "# runtime.MemStats")
	for line := range strings.Lines(stats) {
		_, _ = fmt.Sscanf(line, "# HeapAlloc = %d", &held)
		_, _ = fmt.Sscanf(line, "# TotalAlloc = %d", &total)
	}
	if held == 0 || total == 0 {
		t.Fatalf("no figures in %.300q", stats)
	}
	return held, total
}

// TestHeadersOfWatches checks that the server does not retain the request headers of a watch in memory, even if
// no later request uses the connection.
func TestHeadersOfWatches(t *testing.T) {
	t.Parallel()
	const (
		watches = 90       // fewer than the maximum number of streams of a connection
		most    = 16 << 10 // bytes of a watch
		// The buffer of a TLS connection is as large as the last record that it has received.
		tlsBuffer = 18 << 10
	)
	large := http.Header{
		"A":          slices.Repeat([]string{"b"}, 1900),
		"User-Agent": {strings.Repeat("x", 50_000)}, "Audit-Id": {strings.Repeat("x", 50_000)}, "B": {strings.Repeat("x", 50_000)},
	}
	for name, test := range map[string]struct{ http2, shared bool }{
		"HTTP/1.1":               {},
		"HTTP/2":                 {http2: true, shared: true},
		"HTTP/2 connection each": {http2: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testserver.New(t, testserver.Options{})
			shared := peer(t, srv, test.http2)
			get := func(ctx context.Context, c *http.Client, query string, header http.Header) io.ReadCloser {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL()+collection+query, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header = header.Clone()
				resp, err := c.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode != http.StatusOK {
					t.Fatal(resp.Status)
				}
				return resp.Body
			}
			open := func(header http.Header) int64 {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for range watches {
					c := shared
					if !test.shared {
						c = peer(t, srv, test.http2)
						defer c.CloseIdleConnections()
						// The other buffers of a connection are as large as its largest request.
						list := get(ctx, c, "", large)
						_, _ = io.Copy(io.Discard, list)
						_ = list.Close()
					}
					defer get(ctx, c, "?watch=true", header).Close()
				}
				held, _ := memory(t, srv, shared)
				return held
			}
			before := open(http.Header{})
			after := open(large)
			t.Logf("%d KiB with plain watches, %d KiB with large headers", before>>10, after>>10)
			limit := int64(most)
			if !test.shared {
				limit += tlsBuffer
			}
			if more := (after - before) / watches; more > limit {
				t.Errorf("%d KiB a watch more, the limit is %d", more>>10, limit>>10)
			}
		})
	}
}

// TestManyFields checks that the server rejects a request that has too many header fields, and allocates little
// memory for it.
func TestManyFields(t *testing.T) {
	t.Parallel()
	for name, http2 := range protocols() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testserver.New(t, testserver.Options{})
			c := peer(t, srv, http2)
			const requests = 100
			_, before := memory(t, srv, c)
			for range requests {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL()+collection, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header["A"] = slices.Repeat([]string{"b"}, 5000)
				resp, err := c.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
					t.Fatalf("%s, want 431", resp.Status)
				}
			}
			_, after := memory(t, srv, c)
			t.Logf("%d KiB a request", (after-before)/requests>>10)
			if http2 && (after-before)/requests > 400<<10 { // net/http parses HTTP/1.1 requests
				t.Errorf("%d KiB a request", (after-before)/requests>>10)
			}
		})
	}
}

// TestAnnouncedBodies checks that the server allocates memory for a body only when it receives data, regardless
// of the Content-Length header.
func TestAnnouncedBodies(t *testing.T) {
	t.Parallel()
	for name, http2 := range protocols() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testserver.New(t, testserver.Options{})
			c, looker := peer(t, srv, http2), peer(t, srv, true)
			before, _ := memory(t, srv, looker)
			const bodies = 50
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range bodies {
				body, rest := io.Pipe()
				defer rest.Close()
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL()+collection, body)
				if err != nil {
					t.Fatal(err)
				}
				r.ContentLength = 3 << 20
				r.Header.Set("Content-Type", "application/json")
				go func() {
					if resp, err := c.Do(r); err == nil {
						_ = resp.Body.Close()
					}
				}()
				go func() { _, _ = rest.Write([]byte("{")) }()
			}
			testserver.Eventually(t, time.Minute, func() error {
				resp, err := looker.Get(srv.URL() + "/debug/pprof/goroutine?debug=1")
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				stacks, err := io.ReadAll(resp.Body)
				if err != nil {
					return err
				}
				if n := bodiesRead(string(stacks)); n < bodies {
					return fmt.Errorf("%d handlers read a body, want %d", n, bodies)
				}
				return nil
			})
			held, _ := memory(t, srv, looker)
			t.Logf("%d KiB a body", (held-before)/bodies>>10)
			if most := before + bodies*200<<10; held > most {
				t.Errorf("%d KiB a body", (held-before)/bodies>>10)
			}
		})
	}
}

// bodiesRead returns the number of goroutines in a profile that are reading a body. The profile lists equal
// stacks once, with their number.
func bodiesRead(profile string) int {
	total, n := 0, 0
	for line := range strings.Lines(profile) {
		if _, err := fmt.Sscanf(line, "%d @", &n); err != nil && strings.Contains(line, ".readBody+") {
			total += n
		}
	}
	return total
}
