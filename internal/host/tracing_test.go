package host

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	admissionv1 "k8s.io/api/admission/v1"

	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

// spanCollector is an OpenTelemetry collector that stores spans in memory.
type spanCollector struct {
	collector.UnimplementedTraceServiceServer
	address string
	mu      struct {
		sync.Mutex
		spans    []*tracev1.Span
		resource string
	}
}

func startCollector(t *testing.T) *spanCollector {
	t.Helper()
	c := &spanCollector{}
	listener := listen(t)
	c.address = listener.Addr().String()
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return c
}

// Export implements collector.TraceServiceServer.
func (c *spanCollector) Export(ctx context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	if _, ok := metadata.FromIncomingContext(ctx); !ok {
		return nil, fmt.Errorf("no metadata")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range request.ResourceSpans {
		c.mu.resource = of.Resource.String()
		for _, scope := range of.ScopeSpans {
			c.mu.spans = append(c.mu.spans, scope.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// trace returns the received spans of a trace, by span name.
func (c *spanCollector) trace(id string) map[string]*tracev1.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := map[string]*tracev1.Span{}
	for _, span := range c.mu.spans {
		if fmt.Sprintf("%x", span.TraceId) == id {
			spans[span.Name] = span
		}
	}
	return spans
}

func tracingConfig(t *testing.T, endpoint string) TracingConfig {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tracing.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: " + endpoint + "\nsamplingRatePerMillion: 1000000\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return TracingConfig{ConfigFile: file}
}

// validateConfigMaps starts a validating webhook for ConfigMaps that allows everything, and registers it.
// The returned function returns the last trace context that the webhook received.
func validateConfigMaps(t *testing.T, r *running) func() string {
	t.Helper()
	var mu sync.Mutex
	var parent string
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		if received := r.Header.Get("Traceparent"); received != "" { // controllers also create ConfigMaps
			mu.Lock()
			parent = received
			mu.Unlock()
		}
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, review.Request.UID)
	}))
	t.Cleanup(hook.Close)
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))
	configuration := fmt.Sprintf(`{"metadata":{"name":"w"},"webhooks":[{"name":"w.example.com","admissionReviewVersions":["v1"],"sideEffects":"None",
		"clientConfig":{"url":%q,"caBundle":%q},"rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}],
		"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"default"}}}]}`, hook.URL, bundle)
	if code, body := r.do(t, "POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", configuration); code != 201 {
		t.Fatalf("create the webhook configuration: %d %s", code, body)
	}
	return func() string { mu.Lock(); defer mu.Unlock(); return parent }
}

// createTraced creates a ConfigMap with a request that belongs to the given trace.
func createTraced(t *testing.T, r *running, name, trace string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "POST", r.URL+"/api/v1/namespaces/default/configmaps", strings.NewReader(`{"metadata":{"name":"`+name+`"}}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	response, err := r.admin.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != 201 {
		t.Fatalf("create: %s", response.Status)
	}
}

// TestTracing creates an object with a request that belongs to a client's trace and causes a webhook call. It
// checks which spans the collector has received when the server has stopped, and the parents of these spans.
func TestTracing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		etcd   bool
		commit string // the span of the write
	}{"embedded": {commit: "Wait for disk"}, "etcd": {etcd: true, commit: "etcd commit"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCollector(t)
			config := Config{Tracing: tracingConfig(t, c.address)}
			if tt.etcd {
				config.Storage.Etcd.Servers = etcdtest.Start(t, etcdtest.Options{}).URLs()
			}
			r := start(t, config)
			webhookParent := validateConfigMaps(t, r)
			var id string
			testserver.Eventually(t, time.Minute, func() error { // waits until the webhook takes effect
				id = fmt.Sprintf("4bf92f3577b34da6%016x", time.Now().UnixNano())
				createTraced(t, r, "c-"+id, id)
				if webhookParent() == "" {
					return fmt.Errorf("the webhook received no trace context")
				}
				return nil
			})
			r.end(t) // exports the last spans
			spans := c.trace(id)
			parents := map[string]string{
				"Validate with ValidatingAdmissionWebhook": "POST /api/v1/namespaces/{:namespace}/configmaps",
				"Call webhook w.example.com":               "Validate with ValidatingAdmissionWebhook",
				"Create in storage":                        "POST /api/v1/namespaces/{:namespace}/configmaps",
				"SerializeObject":                          "POST /api/v1/namespaces/{:namespace}/configmaps",
				tt.commit:                                  "Create in storage",
			}
			for name, parent := range parents {
				if spans[name] == nil || spans[parent] == nil || string(spans[name].ParentSpanId) != string(spans[parent].SpanId) {
					t.Errorf("the span %q does not exist or is not below %q", name, parent)
				}
			}
			if call := spans["Call webhook w.example.com"]; call != nil && webhookParent() != fmt.Sprintf("00-%s-%x-01", id, call.SpanId) {
				t.Errorf("the webhook received %s, but the span of the call is %x", webhookParent(), call.SpanId)
			}
			if !strings.Contains(c.mu.resource, "apiserver") {
				t.Errorf("the resource is %s", c.mu.resource)
			}
			if t.Failed() {
				for _, span := range spans {
					t.Logf("%x below %x: %s", span.SpanId, span.ParentSpanId, span.Name)
				}
			}
		})
	}
}

// TestCollectorUnreachable checks that requests succeed and that the server can stop if the collector is
// unreachable.
func TestCollectorUnreachable(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Tracing: tracingConfig(t, "127.0.0.1:1")})
	createTraced(t, r, "c", "4bf92f3577b34da6a3ce929d0e0e4736")
	r.end(t)
}
