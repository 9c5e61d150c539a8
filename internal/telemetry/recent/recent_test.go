package recent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"mainstay.dev/mainstay/internal/telemetry"
	"mainstay.dev/mainstay/internal/telemetry/recent"
)

// statistics is the JSON form of recent.Statistics.
type statistics struct {
	APIVersion, Kind string
	PeriodSeconds    int
	Times            []int64
	Series           []struct {
		Name, Label, Unit string
		Values            []*float64
	}
}

// recorded returns the statistics and their values by name and label, such as "requests GET". A missing
// value is NaN.
func recorded(t *testing.T, r *recent.Recorder) (s statistics, values map[string][]float64) {
	t.Helper()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatalf("decode the statistics: %v: %s", err, w.Body)
	}
	values = map[string][]float64{}
	for _, series := range s.Series {
		if len(series.Values) != len(s.Times) {
			t.Errorf("%s %s has %d values for %d times", series.Name, series.Label, len(series.Values), len(s.Times))
		}
		key := strings.TrimSpace(series.Name + " " + series.Label)
		values[key] = []float64{}
		for _, v := range series.Values {
			if v == nil {
				values[key] = append(values[key], math.NaN())
			} else {
				values[key] = append(values[key], *v)
			}
		}
	}
	return s, values
}

// clock is a fake clock that advances by recent.Period before each reading.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time {
	c.now = c.now.Add(recent.Period)
	return c.now
}

func counter(name string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name}, labels)
}

func gauge(name string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name}, labels)
}

func histogram(name string, bounds []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Buckets: bounds}, labels)
}

// TestValues records samples before and after a change of metrics.
func TestValues(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for name, tt := range map[string]struct {
		// before and after are called before the first and the second sample.
		before, after func(r *prometheus.Registry)
		want          map[string][]float64
	}{
		"no metrics": {func(*prometheus.Registry) {}, func(*prometheus.Registry) {}, map[string][]float64{}},
		"rates by verb": two(counter("apiserver_request_total", "verb", "resource", "code"), func(c *prometheus.CounterVec) {
			c.WithLabelValues("GET", "pods", "200").Add(7)
			c.WithLabelValues("LIST", "pods", "200").Add(7)
		}, func(c *prometheus.CounterVec) {
			c.WithLabelValues("GET", "pods", "200").Add(15)
			c.WithLabelValues("GET", "nodes", "200").Add(30)
			c.WithLabelValues("PUT", "nodes", "200").Add(3) // a new series
		}, map[string][]float64{"requests GET": {nan, 3}, "requests LIST": {nan, 0}, "requests PUT": {nan, 0.2}}),
		"errors by class": two(counter("apiserver_request_total", "verb", "code"), func(c *prometheus.CounterVec) {
			c.WithLabelValues("GET", "404").Add(1)
		}, func(c *prometheus.CounterVec) {
			for code, n := range map[string]float64{"200": 150, "404": 15, "409": 15, "429": 30, "500": 45, "503": 15} {
				c.WithLabelValues("GET", code).Add(n)
			}
		}, map[string][]float64{"requests GET": {nan, 18}, "errors 4xx": {nan, 2}, "errors 429": {nan, 2}, "errors 5xx": {nan, 4}}),
		"a counter reset": two(counter("apiserver_request_total", "verb", "resource"), func(c *prometheus.CounterVec) {
			c.WithLabelValues("GET", "pods").Add(50)
			c.WithLabelValues("PUT", "pods").Add(50)
		}, func(c *prometheus.CounterVec) {
			c.Reset()
			c.WithLabelValues("GET", "pods").Add(15)
			c.WithLabelValues("PUT", "pods").Add(65)
		}, map[string][]float64{"requests PUT": {nan, 1}}),
		"quantiles by verb": two(histogram("apiserver_request_duration_seconds", []float64{0.1, 0.5, 1}, "verb", "resource"), func(h *prometheus.HistogramVec) {
			h.WithLabelValues("GET", "pods").Observe(5)
		}, func(h *prometheus.HistogramVec) {
			for range 50 {
				h.WithLabelValues("GET", "pods").Observe(0.01)
				h.WithLabelValues("GET", "nodes").Observe(0.3)
				h.WithLabelValues("WATCH", "pods").Observe(100)
				h.WithLabelValues("CONNECT", "pods").Observe(100)
			}
			h.WithLabelValues("PUT", "pods").Observe(0.7)
		}, map[string][]float64{"latencyP50 GET": {nan, 0.1}, "latencyP99 GET": {nan, 0.492}, "latencyP50 PUT": {nan, 0.75}, "latencyP99 PUT": {nan, 0.995}}),
		"a quantile above all bounds": two(histogram("mainstay_kv_commit_write_seconds", []float64{0.1, 0.5}), func(*prometheus.HistogramVec) {}, func(h *prometheus.HistogramVec) {
			h.WithLabelValues().Observe(3)
		}, map[string][]float64{"commitP50": {nan, 0.5}, "commitP99": {nan, 0.5}}),
		"a histogram without observations": two(histogram("mainstay_kv_request_seconds", []float64{0.1}, "operation"), func(h *prometheus.HistogramVec) {
			h.WithLabelValues("range").Observe(0)
		}, func(*prometheus.HistogramVec) {}, map[string][]float64{}),
		"a histogram reset": two(histogram("mainstay_kv_request_seconds", []float64{0.1}, "operation"), func(h *prometheus.HistogramVec) {
			h.WithLabelValues("range").Observe(1)
		}, func(h *prometheus.HistogramVec) {
			h.Reset()
			h.WithLabelValues("range").Observe(0)
		}, map[string][]float64{}),
		"gauges": two(gauge("apiserver_flowcontrol_current_inqueue_requests", "priority_level", "flow_schema"), func(g *prometheus.GaugeVec) {
			g.WithLabelValues("a", "x").Set(1)
			g.WithLabelValues("a", "y").Set(2)
			g.WithLabelValues("b", "x").Set(4)
		}, func(g *prometheus.GaugeVec) {
			g.DeleteLabelValues("b", "x")
			g.WithLabelValues("a", "x").Set(0)
			g.WithLabelValues("c", "x").Set(math.Inf(1))
		}, map[string][]float64{"queued a": {3, 2}, "queued b": {4, nan}}),
		"watches": two(gauge("apiserver_longrunning_requests", "verb", "resource"), func(g *prometheus.GaugeVec) {
			g.WithLabelValues("WATCH", "pods").Set(2)
			g.WithLabelValues("WATCH", "nodes").Set(3)
			g.WithLabelValues("CONNECT", "pods").Set(8)
		}, func(*prometheus.GaugeVec) {}, map[string][]float64{"watches": {5, 5}}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			r := recent.New(registry, (&clock{now: time.Unix(1000, 0)}).Now)
			tt.before(registry)
			r.Sample()
			tt.after(registry)
			r.Sample()
			s, values := recorded(t, r)
			if diff := cmp.Diff([]int64{1015, 1030}, s.Times); diff != "" || s.APIVersion != "mainstay.dev/v1" || s.Kind != "Statistics" || s.PeriodSeconds != 15 {
				t.Errorf("statistics %+v, times (-want +got): %s", s, diff)
			}
			equal := cmp.Comparer(func(a, b float64) bool {
				return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) < 1e-6
			})
			if diff := cmp.Diff(tt.want, values, equal); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// two returns a case of TestValues with one metric.
func two[C prometheus.Collector](c C, before, after func(C), want map[string][]float64) struct {
	before, after func(r *prometheus.Registry)
	want          map[string][]float64
} {
	return struct {
		before, after func(r *prometheus.Registry)
		want          map[string][]float64
	}{func(r *prometheus.Registry) { r.MustRegister(c); before(c) }, func(*prometheus.Registry) { after(c) }, want}
}

// TestRing records more samples than the recorder keeps. It also checks that a series without recorded
// values is deleted.
func TestRing(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	number, temporary := gauge("go_goroutines"), gauge("workqueue_depth", "name")
	registry.MustRegister(number, temporary)
	temporary.WithLabelValues("a").Set(1)
	r := recent.New(registry, (&clock{}).Now)
	for i := range recent.Samples + 10 {
		number.WithLabelValues().Set(float64(i))
		r.Sample()
		if i == 10 {
			temporary.Reset()
		}
	}
	s, values := recorded(t, r)
	if n := len(s.Times); n != recent.Samples || s.Times[n-1]-s.Times[0] != 15*(recent.Samples-1) {
		t.Errorf("%d times from %d to %d", n, s.Times[0], s.Times[n-1])
	}
	for i, v := range values["goroutines"] {
		if v != float64(i+10) {
			t.Fatalf("value %d is %f", i, v)
		}
	}
	if got := values["workQueue"]; len(got) == 0 || got[0] != 1 || !math.IsNaN(got[1]) {
		t.Errorf("the series without new values is %v", got)
	}
	r.Sample()
	if _, values := recorded(t, r); len(values) != 1 {
		t.Errorf("%d series", len(values))
	}
}

// TestMaxSeries records more priority levels than the maximum number of series.
func TestMaxSeries(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	queued, requests := gauge("apiserver_flowcontrol_current_inqueue_requests", "priority_level"), counter("apiserver_request_total", "verb")
	registry.MustRegister(queued, requests)
	r := recent.New(registry, (&clock{}).Now)
	for i := range 10 {
		for j := range 100 {
			queued.WithLabelValues(fmt.Sprint(i*100 + j)).Set(1)
		}
		requests.WithLabelValues("GET").Inc()
		r.Sample()
	}
	s, values := recorded(t, r)
	if len(s.Series) != recent.MaxSeries || len(values["requests GET"]) != 10 {
		t.Errorf("%d series, requests %v", len(s.Series), values["requests GET"])
	}
}

// TestGatherError checks the samples after the gatherer has failed. A counter that was missing from the
// previous sample has no rate.
func TestGatherError(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	requests := counter("apiserver_request_total", "verb")
	registry.MustRegister(requests)
	requests.WithLabelValues("GET").Add(1000)
	fail := true
	r := recent.New(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		if fail {
			return nil, errors.New("failed")
		}
		return registry.Gather()
	}), (&clock{}).Now)
	r.Sample()
	fail = false
	r.Sample()
	if s, values := recorded(t, r); len(s.Times) != 2 || len(values) != 0 {
		t.Errorf("%d samples with values %v, want 2 without values", len(s.Times), values)
	}
	requests.WithLabelValues("GET").Add(15)
	r.Sample()
	if _, values := recorded(t, r); values["requests GET"][2] != 1 {
		t.Errorf("values %v, want 1 for requests GET in the last sample", values)
	}
}

// TestRun checks the times at which Run records samples.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Second)
		defer cancel()
		r := recent.New(prometheus.NewRegistry(), time.Now)
		begin := time.Now().Unix()
		r.Run(ctx)
		want := []int64{begin, begin + 15, begin + 30, begin + 45, begin + 60}
		if diff := cmp.Diff(want, r.Statistics().Times); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestRegistry checks which collectors are recorded.
func TestRegistry(t *testing.T) {
	t.Parallel()
	r := recent.NewRegistry(prometheus.NewRegistry())
	needed, other := gauge("workqueue_depth", "name"), gauge("other")
	labeled := prometheus.WrapRegistererWith(prometheus.Labels{"a": "b"}, r)
	labeled.MustRegister(needed, other)
	needed.WithLabelValues("x").Set(1)
	other.WithLabelValues().Set(1)
	if err := labeled.Register(needed); err == nil {
		t.Error("a collector was registered twice")
	}
	if !gathers(t, r, "workqueue_depth") || !gathers(t, r, "other") {
		t.Error("a metric is missing in the registry")
	}
	if !gathers(t, r.Recorded(), "workqueue_depth") || !gathers(t, r.Recorded(), "go_goroutines") || gathers(t, r.Recorded(), "other") {
		t.Error("a metric is recorded that is not needed, or a needed metric is missing")
	}
	if !labeled.Unregister(needed) || gathers(t, r.Recorded(), "workqueue_depth") || gathers(t, r, "workqueue_depth") {
		t.Error("a collector was not unregistered")
	}
}

func gathers(t *testing.T, g prometheus.Gatherer, name string) bool {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Error(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return true
		}
	}
	return false
}

// BenchmarkSample measures Sample for a server with many resources.
func BenchmarkSample(b *testing.B) {
	for _, resources := range []int{10, 100, 300} {
		b.Run(fmt.Sprintf("resources=%d", resources), func(b *testing.B) {
			registry := recent.NewRegistry(telemetry.NewRegistry(telemetry.Build{}))
			requests := telemetry.NewRequests(registry)
			for i := range resources {
				for _, verb := range []string{"GET", "LIST", "POST", "PUT", "DELETE"} {
					d := telemetry.Request{Verb: verb, Group: "example.com", Version: "v1", Resource: fmt.Sprint("resource", i), Scope: "resource", Component: "apiserver"}
					requests.Completed(d, 200, time.Millisecond, 0, 100)
					requests.Completed(d, 404, time.Millisecond, 0, 100)
				}
			}
			r := recent.New(registry.Recorded(), time.Now)
			b.ReportAllocs()
			for b.Loop() {
				r.Sample()
			}
		})
	}
}
