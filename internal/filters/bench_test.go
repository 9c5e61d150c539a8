package filters

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/request"
)

// BenchmarkChain measures a GET that passes through the most important filters, once with limits on requests in
// flight and once with flow control. The measurement does not include TLS and authentication.
func BenchmarkChain(b *testing.B) {
	metrics := newMetrics()
	b.Run("limits", func(b *testing.B) { benchmarkChain(b, MaxInFlight(400, 200, metrics, writeError)) })
	b.Run("flow control", func(b *testing.B) { benchmarkChain(b, FlowControl(newControl(b, 600), metrics, writeError)) })
}

func benchmarkChain(b *testing.B, limits Filter) {
	metrics, drain := newMetrics(), NewDrain()
	user := &request.User{Name: "admin", Groups: []string{request.GroupMasters}}
	final := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) })
	chain := Chain(final,
		AuditID, Recover(quiet(), writeError), RequestInfo(byName, writeError),
		Track(TrackConfig{Metrics: metrics, Logger: quiet()}),
		CacheControl, drain.Filter(writeError), Deadline(DeadlineConfig{Max: time.Minute, Logger: quiet(), OnError: writeError}),
		as(user), limits, Authorize(authz.Union{authz.Masters{}}, nil, quiet(), writeError))
	r := httptest.NewRequest("GET", "/api/v1/namespaces/a/configmaps/x", nil)
	b.ReportAllocs()
	for b.Loop() {
		chain.ServeHTTP(discard{http.Header{}}, r)
	}
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// Answer implements responder, like the ResponseWriter of package http2.
func (d discard) Answer(int, http.Header, []byte) error { return nil }
