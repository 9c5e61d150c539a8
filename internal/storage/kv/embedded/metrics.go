package embedded

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/telemetry"
)

// metrics are the metrics of one store.
type metrics struct {
	unregister func()

	groupSeconds prometheus.Histogram
	groupEvents  prometheus.Histogram
	watches      prometheus.Gauge
}

func newMetrics(r prometheus.Registerer, s *Store) (*metrics, error) {
	const namespace, subsystem = "mainstay", "kv"
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, value)
	}
	m := &metrics{
		groupSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "commit_write_seconds",
			Help:    "Time to write a group of commits durably.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		groupEvents: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "commit_group_events",
			Help:    "Changes that shared one write.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		watches: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "watches",
			Help: "Open watches.",
		}),
	}
	collectors := []prometheus.Collector{
		m.groupSeconds, m.groupEvents, m.watches,
		gauge("revision", "Newest revision.", func() float64 { return float64(s.published.Load()) }),
		gauge("compacted_revision", "Revision up to which history was compacted.", func() float64 { return float64(s.compacted.Load()) }),
		gauge("holds", "Number of revisions held for readers beyond the retention.", func() float64 { n, _ := s.holds.Oldest(); return float64(n) }),
		gauge("oldest_hold_seconds", "Age of the oldest revision that is held for a reader.", func() float64 { _, age := s.holds.Oldest(); return age.Seconds() }),
		gauge("writable", "1 if the store accepts writes.", func() float64 { return s.writable() }),
		gauge("quota_bytes", "Size from which the store accepts deletions only; 0 for no limit.", func() float64 { return float64(s.quota) }),
		gauge("space_alarm", "1 while the store accepts deletions only, because the disk is full or the quota is reached.", func() float64 { return s.alarm() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "apiserver_storage_size_bytes", Help: "[STABLE] Size of the storage database file physically allocated in bytes.",
		}, func() float64 { return s.diskBytes() }),
		gauge("disk_bytes", "Size of the store on disk.", func() float64 { return s.diskBytes() }),
	}
	var err error
	if m.unregister, err = telemetry.RegisterCollectors(r, collectors...); err != nil {
		return nil, fmt.Errorf("register metrics of the store: %w", err)
	}
	return m, nil
}

func (m *metrics) observeGroup(events int, took time.Duration) {
	m.groupSeconds.Observe(took.Seconds())
	m.groupEvents.Observe(float64(events))
}

func (s *Store) writable() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rejectionLocked() != nil {
		return 0
	}
	return 1
}

func (s *Store) alarm() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.full != nil {
		return 1
	}
	return 0
}

func (s *Store) diskBytes() float64 {
	e, err := s.acquireEngine()
	if err != nil {
		return 0
	}
	defer s.release()
	return float64(e.db.Metrics().DiskSpaceUsage())
}
