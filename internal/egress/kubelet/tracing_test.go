package kubelet_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"mainstay.dev/mainstay/internal/egress/kubelet"
)

// TestTraceContext checks that the kubelet receives the trace context of the request.
func TestTraceContext(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Log = func(r *http.Request) io.Reader { return strings.NewReader(r.Header.Get("Traceparent")) }
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	r := httptest.NewRequestWithContext(trace.ContextWithSpanContext(t.Context(), parent), "GET", "/", nil)
	w := httptest.NewRecorder()
	f.client.Logs(&kubelet.Log{Kubelet: f.at, Namespace: "a", Pod: "p", Container: "c"}, writeError).ServeHTTP(w, r)
	if want := "00-01000000000000000000000000000000-0200000000000000-01"; w.Body.String() != want {
		t.Errorf("the kubelet received %q, want %q", w.Body, want)
	}
}
