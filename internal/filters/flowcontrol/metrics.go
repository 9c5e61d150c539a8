package flowcontrol

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/filters/flowcontrol/fairqueue"
	"mainstay.dev/mainstay/internal/request"
)

// Metrics contains the metrics of flow control, with kube-apiserver's names, labels and buckets.
// All Controls of a process share one Metrics. The counters of a Control are read on collection
// (collect.go). The methods in this file observe the other metrics. Metrics is safe for concurrent use.
type Metrics struct {
	execution, waiting, queueLength, watches, seats *prometheus.HistogramVec
	families                                        families
	bounds                                          fairqueue.Bounds // buckets of time-weighted histograms

	mu       sync.Mutex
	controls map[*Control]struct{}
}

// Names of labels.
const (
	levelLabel  = "priority_level"
	schemaLabel = "flow_schema"
)

// NewMetrics registers the metrics. It returns an error if one of them is already registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	seconds := []float64{0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30}
	m := &Metrics{
		families: newFamilies(), bounds: meterBounds(), controls: map[*Control]struct{}{},
		execution: histogram("request_execution_seconds",
			"[ALPHA] Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution in the API Priority and Fairness subsystem", seconds, "type"),
		waiting:     histogram("request_wait_duration_seconds", "[BETA] Length of time a request spent waiting in its queue", seconds, "execute"),
		queueLength: histogram("request_queue_length_after_enqueue", "[ALPHA] Length of queue in the API Priority and Fairness subsystem, as seen by each request after it is enqueued", []float64{0, 10, 25, 50, 100, 250, 500, 1000}),
		watches:     histogram("watch_count_samples", "[ALPHA] count of watchers for mutating requests in API Priority and Fairness", []float64{0, 1, 10, 100, 1000, 10000}),
		seats:       histogram("work_estimated_seats", "[ALPHA] Number of estimated seats (maximum of initial and final seats) associated with requests in API Priority and Fairness", []float64{1, 2, 4, 10}),
	}
	for _, c := range []prometheus.Collector{m.execution, m.waiting, m.queueLength, m.watches, m.seats, m} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of flow control: %w", err)
		}
	}
	return m, nil
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: metricPrefix + name, Help: help, Buckets: buckets},
		append([]string{levelLabel, schemaLabel}, labels...))
}

func (m *Metrics) add(c *Control) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.controls[c] = struct{}{}
}

func (m *Metrics) remove(c *Control) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.controls, c)
}

// flowMetrics contains the histograms of one flow. Each histogram is created on first use.
type flowMetrics struct {
	metrics       *Metrics
	level, schema string
	observers     [observed]atomic.Pointer[prometheus.Observer]
}

// Indexes of flowMetrics.observers. observed is their number.
const (
	executedRegular = iota
	executedWatch
	waitedExecuted
	waitedRejected
	queuedLength
	notifiedWatches
	estimatedSeats
	observed
)

func (m *Metrics) flow(level, schema string) *flowMetrics {
	return &flowMetrics{metrics: m, level: level, schema: schema}
}

func (f *flowMetrics) observe(what int, value float64) {
	observer := f.observers[what].Load()
	if observer == nil {
		made := f.newObserver(what)
		observer = &made
		f.observers[what].Store(observer)
	}
	(*observer).Observe(value)
}

func (f *flowMetrics) newObserver(what int) prometheus.Observer {
	switch what {
	case executedRegular:
		return f.metrics.execution.WithLabelValues(f.level, f.schema, "regular")
	case executedWatch:
		return f.metrics.execution.WithLabelValues(f.level, f.schema, "watch")
	case waitedExecuted:
		return f.metrics.waiting.WithLabelValues(f.level, f.schema, "true")
	case waitedRejected:
		return f.metrics.waiting.WithLabelValues(f.level, f.schema, "false")
	case queuedLength:
		return f.metrics.queueLength.WithLabelValues(f.level, f.schema)
	case notifiedWatches:
		return f.metrics.watches.WithLabelValues(f.level, f.schema)
	}
	return f.metrics.seats.WithLabelValues(f.level, f.schema)
}

// forgetFlow deletes the histograms of a removed flow schema.
func (m *Metrics) forgetFlow(level, schema string) {
	m.drop(prometheus.Labels{levelLabel: level, schemaLabel: schema})
}

// forgetLevel deletes the histograms of a removed level.
func (m *Metrics) forgetLevel(level string) { m.drop(prometheus.Labels{levelLabel: level}) }

func (m *Metrics) drop(labels prometheus.Labels) {
	for _, v := range []*prometheus.HistogramVec{m.execution, m.waiting, m.queueLength, m.watches, m.seats} {
		v.DeletePartialMatch(labels)
	}
}

// estimated observes the estimated seats of a request and the number of notified watches. A
// negative number of watches is not observed.
func (f *flowMetrics) estimated(seats, watches int) {
	f.observe(estimatedSeats, float64(seats))
	if watches >= 0 {
		f.observe(notifiedWatches, float64(watches))
	}
}

func (f *flowMetrics) queued(length int) { f.observe(queuedLength, float64(length)) }

func (f *flowMetrics) waited(admitted bool, d time.Duration) {
	if admitted {
		f.observe(waitedExecuted, d.Seconds())
		return
	}
	f.observe(waitedRejected, d.Seconds())
}

func (f *flowMetrics) ended(info *request.Info, took time.Duration) {
	if info.IsResource && info.Verb == "watch" {
		f.observe(executedWatch, took.Seconds())
		return
	}
	f.observe(executedRegular, took.Seconds())
}

// meterBounds returns the buckets of the time-weighted histograms.
func meterBounds() fairqueue.Bounds {
	return fairqueue.Bounds{
		Seats:    []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1},
		Requests: []float64{0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1},
		Demand:   []float64{0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.7, 2, 2.8, 4, 6},
	}
}
