package telemetry

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestMetricFilter checks that disabled metrics are missing, that values that are not allowed are
// replaced, and that series that become equal are added. The metrics themselves must not change.
func TestMetricFilter(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests", Help: "h"}, []string{"code", "verb"})
	sizes := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sizes", Help: "h", Buckets: []float64{1, 10}}, []string{"verb"})
	gone := prometheus.NewGauge(prometheus.GaugeOpts{Name: "gone", Help: "h"})
	registry.MustRegister(requests, sizes, gone)
	for verb, n := range map[string]float64{"get": 1, "list": 2, "watch": 4} {
		requests.WithLabelValues("200", verb).Add(n)
		sizes.WithLabelValues(verb).Observe(n)
	}
	allowed, err := ParseAllowedLabels(map[string]string{"requests,verb": "'get'", "sizes,verb": "list,none"})
	if err != nil {
		t.Fatal(err)
	}
	filter := &MetricFilter{Disabled: []string{"gone"}, AllowedLabels: allowed}
	want := `# HELP requests h
# TYPE requests counter
requests{code="200",verb="get"} 1
requests{code="200",verb="unexpected"} 6
# HELP sizes h
# TYPE sizes histogram
sizes_bucket{verb="list",le="1"} 0
sizes_bucket{verb="list",le="10"} 1
sizes_bucket{verb="list",le="+Inf"} 1
sizes_sum{verb="list"} 2
sizes_count{verb="list"} 1
sizes_bucket{verb="unexpected",le="1"} 1
sizes_bucket{verb="unexpected",le="10"} 2
sizes_bucket{verb="unexpected",le="+Inf"} 2
sizes_sum{verb="unexpected"} 5
sizes_count{verb="unexpected"} 2
`
	for range 2 {
		if err := testutil.GatherAndCompare(filter.Gatherer(registry), strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	}
	if n := testutil.ToFloat64(requests.WithLabelValues("200", "list")); n != 2 {
		t.Errorf("the filter changed a metric to %v", n)
	}
}

func TestParseAllowedLabels(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"metric", "metric,", ",label", "metric,a,b"} {
		if _, err := ParseAllowedLabels(map[string]string{key: "v"}); err == nil {
			t.Errorf("%q was accepted", key)
		}
	}
}
