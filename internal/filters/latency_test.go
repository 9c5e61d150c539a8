package filters

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/telemetry"
)

// receivedAt returns a filter that changes the time at which a request was received.
func receivedAt(received time.Time) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(request.NewContext(r.Context(), request.InfoFrom(r.Context()), received)))
		})
	}
}

// TestAuditLatencies checks that the last event of a request of more than 500 ms contains the durations of its
// stages, and that no other event does.
func TestAuditLatencies(t *testing.T) {
	t.Parallel()
	handler := func(_ http.ResponseWriter, r *http.Request) {
		request.AddLatency(r.Context(), request.StageMutatingWebhooks, 400*time.Millisecond)
	}
	for received, slow := range map[time.Time]bool{time.Now().Add(time.Hour): false, time.Now().Add(-time.Hour): true} {
		config, events := auditTo(t, "[{level: Metadata}]", nil)
		get(t, http.HandlerFunc(handler), httptest.NewRequest("GET", "/", nil), receivedAt(received), AuditInit(config), Audit(config))
		got := events()
		if stagesOf(got) != "RequestReceived ResponseComplete" || got[0].Annotations != nil {
			t.Fatalf("events: %+v", got)
		}
		annotations := got[1].Annotations
		if !slow {
			if len(annotations) > 0 {
				t.Errorf("annotations of a fast request: %v", annotations)
			}
			continue
		}
		if total, err := time.ParseDuration(annotations["apiserver.latency.k8s.io/total"]); err != nil || total < time.Hour {
			t.Errorf("total %v, %v; want an hour", total, err)
		}
		if got := annotations["apiserver.latency.k8s.io/mutating-webhook"]; got != "400ms" || len(annotations) != 2 {
			t.Errorf("annotations %v", annotations)
		}
	}
}

// TestServiceLevelIndicator checks that the service level indicator excludes the time of webhooks.
func TestServiceLevelIndicator(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		handler := func(_ http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			request.AddLatency(r.Context(), request.StageMutatingWebhooks, 750*time.Millisecond)
		}
		get(t, http.HandlerFunc(handler), httptest.NewRequest("GET", "/api/v1/nodes", nil),
			Track(TrackConfig{Metrics: telemetry.NewRequests(registry), Logger: quiet()}))
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]float64{"apiserver_request_duration_seconds": 1, "apiserver_request_sli_duration_seconds": 0.25}
		for _, family := range families {
			seconds, ok := want[family.GetName()]
			if !ok {
				continue
			}
			delete(want, family.GetName())
			if got := family.GetMetric()[0].GetHistogram().GetSampleSum(); got != seconds {
				t.Errorf("%s: %v s, want %v s", family.GetName(), got, seconds)
			}
		}
		if len(want) > 0 {
			t.Errorf("missing metrics: %v", want)
		}
	})
}
