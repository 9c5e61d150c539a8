package etcd

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/telemetry"
)

// metrics are the metrics of one store.
type metrics struct {
	unregister func()

	seconds *prometheus.HistogramVec
	errors  *prometheus.CounterVec
}

// newMetrics registers the metrics of a store, with a label for its cluster.
func newMetrics(r prometheus.Registerer, s *Store) (*metrics, error) {
	const namespace, subsystem = "mainstay", "kv"
	if r != nil {
		r = prometheus.WrapRegistererWith(prometheus.Labels{"storage_cluster_id": s.config.ClusterID}, r)
	}
	m := &metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "request_seconds",
			Help:    "Duration of requests to etcd, including their repetitions.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}, []string{"operation"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "request_errors_total",
			Help: "Number of requests to which etcd did not respond.",
		}, []string{"operation"}),
	}
	collectors := []prometheus.Collector{
		m.seconds, m.errors,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: "watches", Help: "Open watches."}, s.openWatches),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: "holds", Help: "Number of revisions held for readers beyond the retention."},
			func() float64 { n, _ := s.holds.Oldest(); return float64(n) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: "oldest_hold_seconds", Help: "Age of the oldest revision that is held for a reader."},
			func() float64 { _, age := s.holds.Oldest(); return age.Seconds() }),
	}
	if s.config.SizeInterval > 0 {
		collectors = append(collectors, newSizeMetric(s))
	}
	var err error
	if m.unregister, err = telemetry.RegisterCollectors(r, collectors...); err != nil {
		return nil, fmt.Errorf("register metrics of etcd: %w", err)
	}
	return m, nil
}

func (m *metrics) observe(operation string, began time.Time, err error) {
	m.seconds.WithLabelValues(operation).Observe(time.Since(began).Seconds())
	if errors.Is(err, kv.ErrUnavailable) {
		m.errors.WithLabelValues(operation).Inc()
	}
}

func (s *Store) openWatches() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(len(s.mu.watches))
}
