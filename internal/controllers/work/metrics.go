package work

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics contains the metrics of all queues in a process, with the names and labels of client-go's workqueue
// package. Queues with the same name share their series. Metrics is safe for concurrent use. A nil *Metrics
// records nothing.
type Metrics struct {
	depth              *prometheus.GaugeVec
	adds, retries      *prometheus.CounterVec
	waiting, working   *prometheus.HistogramVec
	unfinished, oldest *prometheus.Desc

	mu     sync.Mutex
	queues map[string]*queueMetrics // by the name of the queue
}

// queueMetrics contains the metrics of all queues with one name. A nil *queueMetrics records nothing.
type queueMetrics struct {
	depth            prometheus.Gauge
	adds, retries    prometheus.Counter
	waiting, working prometheus.Observer

	mu      sync.Mutex
	running map[*task]struct{}
}

// task is a running call of Config.Sync.
type task struct{ started time.Time }

// NewMetrics creates and registers the metrics. It returns an error if they are already registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	labels := []string{"name"}
	buckets := prometheus.ExponentialBuckets(1e-8, 10, 12)
	m := &Metrics{
		depth:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_depth", Help: "Number of waiting keys."}, labels),
		adds:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_adds_total", Help: "Number of added keys."}, labels),
		retries:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_retries_total", Help: "Number of retries after an error."}, labels),
		waiting:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "workqueue_queue_duration_seconds", Help: "Time that a key waits in the queue, in seconds.", Buckets: buckets}, labels),
		working:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "workqueue_work_duration_seconds", Help: "Duration of processing a key, in seconds.", Buckets: buckets}, labels),
		unfinished: prometheus.NewDesc("workqueue_unfinished_work_seconds", "Total time since the keys in progress were started, in seconds.", labels, nil),
		oldest:     prometheus.NewDesc("workqueue_longest_running_processor_seconds", "Time since the oldest key in progress was started, in seconds.", labels, nil),
		queues:     map[string]*queueMetrics{},
	}
	for _, c := range []prometheus.Collector{m.depth, m.adds, m.retries, m.waiting, m.working, runningCollector{m}} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of work queues: %w", err)
		}
	}
	return m, nil
}

// forQueue returns the metrics of the queues with the given name, or nil if m is nil.
func (m *Metrics) forQueue(name string) *queueMetrics {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queues[name]
	if q == nil {
		q = &queueMetrics{
			depth: m.depth.WithLabelValues(name), adds: m.adds.WithLabelValues(name), retries: m.retries.WithLabelValues(name),
			waiting: m.waiting.WithLabelValues(name), working: m.working.WithLabelValues(name),
			running: map[*task]struct{}{},
		}
		m.queues[name] = q
	}
	return q
}

// add records that a key was added to the queue.
func (q *queueMetrics) add() {
	if q != nil {
		q.depth.Inc()
		q.adds.Inc()
	}
}

// drop records that n waiting keys were discarded.
func (q *queueMetrics) drop(n int) {
	if q != nil {
		q.depth.Sub(float64(n))
	}
}

// retry records that processing a key failed and is retried.
func (q *queueMetrics) retry() {
	if q != nil {
		q.retries.Inc()
	}
}

// start records that the processing of a key starts. added is the time at which the key was enqueued. The
// caller must pass the result to finish.
func (q *queueMetrics) start(added time.Time) *task {
	if q == nil {
		return nil
	}
	t := &task{time.Now()}
	q.depth.Dec()
	q.waiting.Observe(t.started.Sub(added).Seconds())
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running[t] = struct{}{}
	return t
}

// finish records the end of a task.
func (q *queueMetrics) finish(t *task) {
	if q == nil {
		return
	}
	q.working.Observe(time.Since(t.started).Seconds())
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.running, t)
}

// inProgress returns the total and the maximum time for which the unfinished tasks have been running.
func (q *queueMetrics) inProgress() (sum, longest time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for t := range q.running {
		age := time.Since(t.started)
		sum += age
		longest = max(longest, age)
	}
	return sum, longest
}

// runningCollector exports the metrics that must be computed at the time of the scrape.
type runningCollector struct{ *Metrics }

// Describe implements prometheus.Collector.
func (c runningCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- c.unfinished
	descriptions <- c.oldest
}

// Collect implements prometheus.Collector.
func (c runningCollector) Collect(metrics chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, q := range c.queues {
		sum, longest := q.inProgress()
		metrics <- prometheus.MustNewConstMetric(c.unfinished, prometheus.GaugeValue, sum.Seconds(), name)
		metrics <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, longest.Seconds(), name)
	}
}
