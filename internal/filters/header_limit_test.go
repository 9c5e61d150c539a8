package filters

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"unsafe"
	"weak"

	"mainstay.dev/mainstay/internal/host/http2"
	"mainstay.dev/mainstay/internal/request"
)

// listeners returns functions that configure a test server, by protocol.
func listeners() map[string]func(*httptest.Server) {
	return map[string]func(*httptest.Server){
		"HTTP/1.1":           func(*httptest.Server) {},
		"HTTP/2":             func(s *httptest.Server) { s.EnableHTTP2 = true; s.TLS = &tls.Config{}; mustConfigure(s) },
		"HTTP/2 by net/http": func(s *httptest.Server) { s.EnableHTTP2 = true },
	}
}

func mustConfigure(s *httptest.Server) {
	if err := http2.Configure(s.Config); err != nil {
		panic(err)
	}
}

// listen serves a handler until the test ends.
func listen(t *testing.T, change func(*httptest.Server), h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	change(s)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// TestHeaderLimit checks the limit of header fields for each protocol.
func TestHeaderLimit(t *testing.T) {
	t.Parallel()
	for name, change := range listeners() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := listen(t, change, Chain(answer(http.StatusOK, ""), HeaderLimit(http2.MaxHeaderFields)))
			for _, tt := range []struct {
				names, times, want int
			}{
				{1, http2.MaxHeaderFields - 100, http.StatusOK},
				{1, http2.MaxHeaderFields + 1, http.StatusRequestHeaderFieldsTooLarge},
				{http2.MaxHeaderFields + 1, 1, http.StatusRequestHeaderFieldsTooLarge},
				{100, http2.MaxHeaderFields / 50, http.StatusRequestHeaderFieldsTooLarge},
			} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
				if err != nil {
					t.Fatal(err)
				}
				for i := range tt.names {
					for range tt.times {
						r.Header.Add(fmt.Sprintf("X-%d", i), "a")
					}
				}
				resp, err := s.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if resp.StatusCode != tt.want {
					t.Errorf("%d names %d times: %s, want %d", tt.names, tt.times, resp.Status, tt.want)
				}
			}
		})
	}
}

// TestRelease checks that filters and servers do not retain a request header that the handler has
// released.
func TestRelease(t *testing.T) {
	t.Parallel()
	for name, change := range listeners() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			final := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).Flush()
				held := []weak.Pointer[byte]{bytesOf(r, "X-Big"), bytesOf(r, "User-Agent"), bytesOf(r, "Audit-Id")}
				request.Release(r)
				for range 20 {
					runtime.GC()
					if held[0].Value() == nil && held[1].Value() == nil && held[2].Value() == nil {
						_, _ = io.WriteString(w, "released")
						return
					}
				}
				_, _ = fmt.Fprintf(w, "held: %t %t %t", held[0].Value() != nil, held[1].Value() != nil, held[2].Value() != nil)
			})
			s := listen(t, change, Chain(final,
				HeaderLimit(http2.MaxHeaderFields), CloseChunked, AuditID, Recover(quiet(), writeError), RequestInfo(byName, writeError),
				Track(TrackConfig{Metrics: newMetrics(), Logger: quiet()}), CacheControl, NewDrain().Filter(writeError),
			))
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/v1/pods?watch=true", nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"X-Big", "User-Agent", "Audit-Id"} {
				r.Header.Set(key, strings.Repeat("x", 50_000))
			}
			resp, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || string(got) != "released" {
				t.Errorf("%s %s (%v)", resp.Proto, got, err)
			}
		})
	}
}

func bytesOf(r *http.Request, key string) weak.Pointer[byte] {
	return weak.Make(unsafe.StringData(r.Header.Get(key)))
}

// TestCloseChunked checks that only requests with a chunked body close the connection.
func TestCloseChunked(t *testing.T) {
	t.Parallel()
	for name, change := range listeners() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := listen(t, change, CloseChunked(answer(http.StatusOK, "")))
			for _, length := range []int64{3, -1} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, io.NopCloser(strings.NewReader("abc")))
				if err != nil {
					t.Fatal(err)
				}
				r.ContentLength = length
				resp, err := s.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if want := length < 0 && resp.ProtoMajor == 1; resp.Close != want {
					t.Errorf("%s, length %d: close=%t, want %t", resp.Proto, length, resp.Close, want)
				}
			}
		})
	}
}
