package telemetry

import (
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func TestMetricFilter(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests_total", Help: "h"}, []string{"code", "verb"})
	active := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "active", Help: "h"}, []string{"verb"})
	latency := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "latency", Help: "h", Buckets: []float64{1}}, []string{"verb"})
	sizes := prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: "sizes", Help: "h", Objectives: map[float64]float64{0.5: 0.1}}, []string{"verb"})
	removed := prometheus.NewCounter(prometheus.CounterOpts{Name: "removed", Help: "h"})
	registry.MustRegister(requests, active, latency, sizes, removed)
	for i, verb := range []string{"get", "put", "post"} {
		requests.WithLabelValues("200", verb).Add(float64(i + 1))
		active.WithLabelValues(verb).Set(1)
		latency.WithLabelValues(verb).Observe(float64(i))
		sizes.WithLabelValues(verb).Observe(float64(i))
	}
	filter := MetricFilter{
		Disabled: map[string]bool{"removed": true},
		AllowedValues: map[MetricLabel][]string{
			{"requests_total", "verb"}: {"get", "head"}, {"active", "verb"}: {"get"}, {"latency", "verb"}: {""}, {"sizes", "verb"}: nil, {"nothing", "verb"}: nil,
		},
	}
	const want = `# HELP active h
# TYPE active gauge
active{verb="get"} 1
active{verb="unexpected"} 2
# HELP latency h
# TYPE latency histogram
latency_bucket{verb="unexpected",le="1"} 2
latency_bucket{verb="unexpected",le="+Inf"} 3
latency_sum{verb="unexpected"} 3
latency_count{verb="unexpected"} 3
# HELP requests_total h
# TYPE requests_total counter
requests_total{code="200",verb="get"} 1
requests_total{code="200",verb="unexpected"} 5
# HELP sizes h
# TYPE sizes summary
sizes_sum{verb="unexpected"} 3
sizes_count{verb="unexpected"} 3
`
	for range 2 { // the first scrape must not change the series
		w := httptest.NewRecorder()
		promhttp.HandlerFor(filter.Gatherer(registry), promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if diff := cmp.Diff(want, w.Body.String()); diff != "" {
			t.Error(diff)
		}
	}
	if got := (MetricFilter{}).Gatherer(registry); got != prometheus.Gatherer(registry) {
		t.Error("an empty filter does not return the original gatherer")
	}
}
