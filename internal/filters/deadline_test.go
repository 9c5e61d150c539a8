package filters

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/host/http2"
	"mainstay.dev/mainstay/internal/telemetry"
)

func TestParseTimeout(t *testing.T) {
	t.Parallel()
	tests := []struct {
		query string
		want  time.Duration
		err   string
	}{
		{"", time.Minute, ""},
		{"timeout=5s", 5 * time.Second, ""},
		{"timeout=0", time.Minute, ""},
		{"timeout=0s", time.Minute, ""},
		{"timeout=-5s", time.Minute, ""},
		{"timeout=2h", time.Minute, ""},
		{"timeout=", time.Minute, ""},
		{"limit=1&timeout=1ms", time.Millisecond, ""},
		{"timeoutSeconds=5", time.Minute, ""},
		{"timeout=nonsense", 0, `invalid timeout specified in the request URL - time: invalid duration "nonsense"`},
	}
	for _, tt := range tests {
		got, err := parseTimeout(&url.URL{RawQuery: tt.query}, time.Minute)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%q: %s, %v; want %s, %q", tt.query, got, err, tt.want, tt.err)
		}
	}
}

// FuzzParseTimeout checks that the timeout never exceeds the maximum, for any requested timeout.
func FuzzParseTimeout(f *testing.F) {
	f.Add("timeout=5s")
	f.Add("timeout=-1h&timeout=1s")
	f.Fuzz(func(t *testing.T, query string) {
		got, err := parseTimeout(&url.URL{RawQuery: query}, time.Minute)
		if err == nil && (got <= 0 || got > time.Minute) {
			t.Errorf("timeout of the query %q: %s, want at most a minute", query, got)
		}
	})
}

// TestDeadline checks the responses of an HTTP/2 server to requests with a timeout, for various handlers.
func TestDeadline(t *testing.T) {
	t.Parallel()
	const timeout = "?timeout=50ms"
	endless := func(w http.ResponseWriter, r *http.Request) {
		chunk := bytes.Repeat([]byte("a"), 1<<16)
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	tests := []struct {
		name    string
		handler http.HandlerFunc
		body    io.Reader
		code    int  // 0 means that the stream is reset
		cut     bool // the body is incomplete
	}{
		{"in time", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) }, nil, 201, false},
		{"waits for its context", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil, 504, false},
		{"waits for the body", func(_ http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err == nil {
				t.Error("the body has been read to its end")
			}
		}, neverEnding{}, 504, false},
		{"responds by itself", func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			writeError(w, r, ErrTimeout())
		}, nil, 504, false},
		{"waits for a client that does not read", endless, nil, 200, true},
		{"stops in the middle", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "half of it")
			<-r.Context().Done()
		}, nil, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(Chain(tt.handler, AuditID, RequestInfo(byName, writeError), Deadline(DeadlineConfig{Max: time.Minute, Logger: quiet(), OnError: writeError})))
			server.EnableHTTP2 = true
			server.StartTLS()
			defer server.Close()
			method := "GET"
			if tt.body != nil {
				method = "POST"
			}
			r, err := http.NewRequest(method, server.URL+"/api/v1/namespaces/a/pods"+timeout, tt.body)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := server.Client().Do(r)
			if err != nil {
				if tt.code != 0 {
					t.Error(err)
				}
				return
			}
			defer resp.Body.Close()
			if tt.code != 0 && resp.StatusCode != tt.code {
				t.Errorf("response %d, want %d", resp.StatusCode, tt.code)
			}
			if tt.name == "waits for a client that does not read" {
				<-time.After(100 * time.Millisecond) // simulates a slow client
			}
			body, err := io.ReadAll(resp.Body)
			if cut := err != nil; cut != tt.cut {
				t.Errorf("the body ended with %v after %d bytes", err, len(body))
			}
			if tt.code == 504 {
				want := &metav1.Status{Status: "Failure", Reason: "Timeout", Code: 504, Details: &metav1.StatusDetails{},
					Message: "Timeout: request did not complete within the allotted timeout"}
				if diff := cmp.Diff(want, statusOf(t, bytes.NewReader(body))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// neverEnding is a request body that never ends.
type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) {
	<-time.After(time.Millisecond)
	return copy(p, "a"), nil
}

func TestDeadlineIgnoresWatches(t *testing.T) {
	t.Parallel()
	final := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, ok := r.Context().Deadline(); ok {
			t.Error("a watch has a deadline")
		}
	})
	get(t, final, httptest.NewRequest("GET", "/api/v1/pods?watch=1&timeout=1s", nil), Deadline(DeadlineConfig{Max: time.Minute, Logger: quiet(), OnError: writeError}))
}

func TestDeadlineInvalidTimeout(t *testing.T) {
	t.Parallel()
	got := get(t, answer(200, ""), httptest.NewRequest("GET", "/api/v1/pods?timeout=nonsense", nil), Deadline(DeadlineConfig{Max: time.Minute, Logger: quiet(), OnError: writeError}))
	if status := statusOf(t, got.Body); got.Code != 400 || !strings.HasPrefix(status.Message, "invalid timeout specified in the request URL") {
		t.Errorf("response %d %s", got.Code, status.Message)
	}
}

func TestResponseUnwrap(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	w := wrap(recorder)
	if wrap(w) != w {
		t.Error("a response is wrapped twice")
	}
	if err := http.NewResponseController(w).Flush(); err != nil || !recorder.Flushed {
		t.Errorf("flush: %v, flushed %t", err, recorder.Flushed)
	}
	if _, _, err := w.Hijack(); !errors.Is(err, http.ErrNotSupported) {
		t.Errorf("hijack a response that does not support it: %v", err)
	}
}

// TestDeadlineIgnoredByHandler checks, for each protocol, that the client receives a 504 while a
// handler that ignores its deadline is still running. Later writes of the handler fail. The return
// of the handler is counted and logged.
func TestDeadlineIgnoredByHandler(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			metrics := telemetry.NewRequests(registry)
			log := make(chan string, 2)
			logger := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
				log <- string(p)
				return len(p), nil
			}), nil))
			answered, written, done := make(chan struct{}), make(chan error, 1), make(chan struct{})
			handler := func(w http.ResponseWriter, r *http.Request) {
				for i := 0; ; i++ { // a computation that continuously modifies the header
					w.Header().Set("X-Round", strconv.Itoa(i))
					r.Header.Set("Accept", "nothing")
					select {
					case <-answered:
						_, err := io.WriteString(w, "late")
						written <- err
						return
					default:
					}
				}
			}
			chain := Chain(http.HandlerFunc(handler), func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					defer close(done)
					next.ServeHTTP(w, r)
				})
			}, AuditID, RequestInfo(byName, writeError), Deadline(DeadlineConfig{Max: time.Minute, Metrics: metrics, Logger: logger, OnError: writeError}))
			server := httptest.NewUnstartedServer(chain)
			if server.EnableHTTP2 = protocol == "HTTP/2.0"; server.EnableHTTP2 {
				if err := http2.Configure(server.Config); err != nil {
					t.Fatal(err)
				}
			}
			server.StartTLS()
			defer server.Close()
			resp, err := server.Client().Post(server.URL+"/api/v1/namespaces/a/pods?timeout=20ms", "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 504 || resp.Proto != protocol || resp.Header.Get("Audit-Id") == "" || resp.Header.Get("X-Round") != "" {
				t.Errorf("response %d %s by %s with %v, %v", resp.StatusCode, body, resp.Proto, resp.Header, err)
			}
			if status := statusOf(t, bytes.NewReader(body)); status.Reason != metav1.StatusReasonTimeout {
				t.Errorf("response %s", body)
			}
			// The client may receive the response before it is counted and logged.
			if line := <-log; !strings.Contains(line, "its handler has not returned") {
				t.Errorf("the log contains %s", line)
			}
			if got := postTimeouts(t, registry); got["pending"] != 1 || got["ok"] != 0 {
				t.Errorf("while the handler runs: %v", got)
			}
			close(answered)
			if err := <-written; !errors.Is(err, http.ErrHandlerTimeout) {
				t.Errorf("the handler's write: %v", err)
			}
			<-done
			if got := postTimeouts(t, registry); got["pending"] != 1 || got["ok"] != 1 {
				t.Errorf("when the handler has returned: %v", got)
			}
			if line := <-log; !strings.Contains(line, "timed out has returned") {
				t.Errorf("the log contains %s", line)
			}
		})
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// postTimeouts returns the numbers of handlers that had not returned at their deadline, and of handlers that
// have returned since then, by status.
func postTimeouts(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "apiserver_request_post_timeout_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "status" {
					got[label.GetValue()] = metric.GetCounter().GetValue()
				}
			}
		}
	}
	return got
}
