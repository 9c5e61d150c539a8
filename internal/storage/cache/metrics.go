package cache

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Metrics are the metrics of all caches of a server, with kube-apiserver's names. They are safe for
// concurrent use.
type Metrics struct {
	stored          *prometheus.CounterVec
	received        *prometheus.CounterVec
	dispatched      *prometheus.CounterVec
	initializations *prometheus.CounterVec
	revision        *prometheus.GaugeVec
	capacity        *prometheus.GaugeVec
	readWait        *prometheus.HistogramVec
	consistent      *prometheus.CounterVec
	lists           *prometheus.CounterVec
	fetched         *prometheus.CounterVec
	returned        *prometheus.CounterVec
}

// NewMetrics creates the metrics of caches. It registers them unless registerer is nil, and fails if they are
// registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"group", "resource"}, labels...))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"group", "resource"})
	}
	m := &Metrics{
		stored:          counter("apiserver_storage_events_received_total", "[BETA] Number of etcd events received split by kind."),
		received:        counter("apiserver_watch_cache_events_received_total", "[ALPHA] Counter of events received in watch cache broken by resource type."),
		dispatched:      counter("apiserver_watch_cache_events_dispatched_total", "[ALPHA] Counter of events dispatched in watch cache broken by resource type."),
		initializations: counter("apiserver_watch_cache_initializations_total", "[ALPHA] Counter of watch cache initializations broken by resource type."),
		revision:        gauge("apiserver_watch_cache_resource_version", "[ALPHA] Current resource version of watch cache broken by resource type. This is truncated to the 15 least significant digits."),
		capacity:        gauge("watch_cache_capacity", "[ALPHA] Total capacity of watch cache broken by resource type."),
		readWait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_watch_cache_read_wait_seconds", Help: "[ALPHA] Histogram of time spent waiting for a watch cache to become fresh.",
			Buckets: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3},
		}, []string{"group", "resource"}),
		consistent: counter("apiserver_watch_cache_consistent_read_total", "[ALPHA] Counter for consistent reads from cache.", "success", "fallback"),
		lists:      counter("apiserver_cache_list_total", "[ALPHA] Number of LIST requests served from watch cache", "index"),
		fetched:    counter("apiserver_cache_list_fetched_objects_total", "[ALPHA] Number of objects read from watch cache in the course of serving a LIST request", "index"),
		returned:   counter("apiserver_cache_list_returned_objects_total", "[ALPHA] Number of objects returned for a LIST request from watch cache"),
	}
	if registerer == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.stored, m.received, m.dispatched, m.initializations, m.revision, m.capacity, m.readWait, m.consistent, m.lists, m.fetched, m.returned} {
		errs = append(errs, registerer.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register cache metrics: %w", err)
	}
	return m, nil
}

// resourceMetrics are the metrics of a resource. They are created when its cache is first loaded, so that unused
// resources have no series.
type resourceMetrics struct {
	stored, receivedTotal, dispatched, initializations prometheus.Counter
	revision, capacity                                 prometheus.Gauge
	readWait                                           prometheus.Observer
	consistentOK, consistentFallback                   prometheus.Counter
	// lists and fetched have the label index, which is empty without an index.
	lists, fetched *prometheus.CounterVec
	returned       prometheus.Counter
}

func (m *Metrics) forResource(r schema.GroupResource) *resourceMetrics {
	g, n := r.Group, r.Resource
	return &resourceMetrics{
		stored: m.stored.WithLabelValues(g, n), receivedTotal: m.received.WithLabelValues(g, n),
		dispatched: m.dispatched.WithLabelValues(g, n), initializations: m.initializations.WithLabelValues(g, n),
		revision: m.revision.WithLabelValues(g, n), capacity: m.capacity.WithLabelValues(g, n),
		readWait:           m.readWait.WithLabelValues(g, n),
		consistentOK:       m.consistent.WithLabelValues(g, n, "true", "false"),
		consistentFallback: m.consistent.WithLabelValues(g, n, "true", "true"),
		lists:              m.lists.MustCurryWith(prometheus.Labels{"group": g, "resource": n}),
		fetched:            m.fetched.MustCurryWith(prometheus.Labels{"group": g, "resource": n}),
		returned:           m.returned.WithLabelValues(g, n),
	}
}

// Forget removes the series of a deleted resource, except the series of lists that used an index. If a
// resource with the same name has a cache below another prefix, its series start again at the next load. f
// may be nil.
func (f *Feed) Forget(resource schema.GroupResource) {
	if f == nil {
		return // caches are disabled
	}
	m, labels := f.metrics, []string{resource.Group, resource.Resource}
	for _, vec := range []*prometheus.MetricVec{
		m.stored.MetricVec, m.received.MetricVec, m.dispatched.MetricVec, m.initializations.MetricVec, m.revision.MetricVec,
		m.capacity.MetricVec, m.readWait.MetricVec, m.returned.MetricVec,
	} {
		vec.DeleteLabelValues(labels...)
	}
	for _, fallback := range []string{"false", "true"} {
		m.consistent.DeleteLabelValues(resource.Group, resource.Resource, "true", fallback)
	}
	for _, vec := range []*prometheus.CounterVec{m.lists, m.fetched} {
		vec.DeleteLabelValues(resource.Group, resource.Resource, indexTerm{}.name())
	}
}

// revisionDigits limits the gauge of the revision to integers that a float64 can represent exactly.
const revisionDigits int64 = 1e15

func (r *resourceMetrics) initialized() { r.initializations.Inc() }

func (r *resourceMetrics) received(changes int, revision int64, capacity int) {
	r.stored.Add(float64(changes))
	r.receivedTotal.Add(float64(changes))
	r.dispatched.Add(float64(changes))
	r.revision.Set(float64(revision % revisionDigits))
	r.capacity.Set(float64(capacity))
}

func (r *resourceMetrics) waited(d time.Duration) { r.readWait.Observe(d.Seconds()) }

func (r *resourceMetrics) listed(index string, evaluated, returned int64) {
	r.lists.WithLabelValues(index).Inc()
	r.fetched.WithLabelValues(index).Add(float64(evaluated))
	r.returned.Add(float64(returned))
}
