package filters

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"mainstay.dev/mainstay/internal/request"
)

const (
	clientTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientParent = "00-" + clientTrace + "-00f067aa0ba902b7-01"
)

// TestTraceFilter checks the spans of requests: their names and attributes, and that only the
// requests of privileged users continue the client's trace.
func TestTraceFilter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method, path, group, name string
		status                    int
		sampler                   sdktrace.Sampler
		extends, recorded         bool
	}{
		{"GET", "/api/v1/namespaces/a/pods/b", request.GroupMasters, "GET /api/v1/namespaces/{:namespace}/pods/{:name}", 200, sdktrace.NeverSample(), true, true},
		{"POST", "/apis/apps/v1/namespaces/a/deployments", groupMonitoring, "POST /apis/apps/v1/namespaces/{:namespace}/deployments", 201, sdktrace.NeverSample(), true, true},
		{"PUT", "/api/v1/nodes/n/status", "developers", "PUT /api/v1/nodes/{:name}/status", 500, sdktrace.AlwaysSample(), false, true},
		{"GET", "/readyz", "developers", "GET", 200, sdktrace.AlwaysSample(), false, true},
		{"GET", "/readyz", "developers", "GET", 200, sdktrace.NeverSample(), false, false},
	} {
		recorder := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sdktrace.ParentBased(tt.sampler)))
		var inner context.Context
		handler := Chain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inner = r.Context(); w.WriteHeader(tt.status) }),
			AuditID, Recover(quiet(), writeError), RequestInfo(byName, writeError), as(&request.User{Name: "u", Groups: []string{tt.group}}), Trace(provider))
		r := httptest.NewRequest(tt.method, tt.path, nil)
		r.Header.Set("Traceparent", clientParent)
		handler.ServeHTTP(httptest.NewRecorder(), r)
		if !trace.SpanContextFromContext(inner).IsValid() {
			t.Errorf("%s: other servers would receive no trace context", tt.path)
		}
		ended := recorder.Ended()
		if (len(ended) == 1) != tt.recorded {
			t.Errorf("%s: %d spans", tt.path, len(ended))
			continue
		}
		if !tt.recorded {
			continue
		}
		span := ended[0]
		if span.Name() != tt.name || span.SpanKind() != trace.SpanKindServer {
			t.Errorf("%s: span of kind %s with the name %q, want kind server and %q", tt.path, span.SpanKind(), span.Name(), tt.name)
		}
		if extends := span.SpanContext().TraceID().String() == clientTrace; extends != tt.extends || len(span.Links()) == 1 == extends {
			t.Errorf("%s: extends %t, links %v", tt.path, extends, span.Links())
		}
		attributes := attribute.NewSet(span.Attributes()...)
		if status, _ := attributes.Value("http.response.status_code"); status.AsInt64() != int64(tt.status) {
			t.Errorf("%s: status %v", tt.path, status)
		}
		if id, _ := attributes.Value("audit-id"); id.AsString() == "" {
			t.Errorf("%s: no audit ID", tt.path)
		}
	}
}
