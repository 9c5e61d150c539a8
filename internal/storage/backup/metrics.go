package backup

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/telemetry"
)

// Values of the label kind.
const (
	kindBase    = "base"
	kindSegment = "segment"
)

// metrics are the metrics of a Writer. A nil *metrics is valid.
type metrics struct {
	unregisterAll func()

	failures prometheus.Counter
	bytes    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer, w *Writer) (*metrics, error) {
	if registerer == nil {
		return nil, nil
	}
	m := &metrics{
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "mainstay_backup_failures_total", Help: "Number of failed attempts to write to the backup."}),
		bytes:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mainstay_backup_bytes_total", Help: "Size of the objects that were uploaded to the backup, in bytes."}, []string{"kind"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mainstay_backup_upload_duration_seconds", Help: "Duration of the uploads of objects to the backup, in seconds.", Buckets: prometheus.ExponentialBuckets(0.005, 4, 9),
		}, []string{"kind"}),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mainstay_backup_" + name, Help: help}, value)
	}
	var err error
	m.unregisterAll, err = telemetry.RegisterCollectors(registerer,
		m.failures, m.bytes, m.duration,
		gauge("lag_seconds", "Time since which changes have not been uploaded to the backup, in seconds; 0 if the backup is complete.", func() float64 { return w.Lag().Seconds() }),
		gauge("revision", "Newest revision in the backup.", func() float64 { return float64(w.Position()) }),
	)
	if err != nil {
		return nil, fmt.Errorf("register the metrics of the backup: %w", err)
	}
	return m, nil
}

func (m *metrics) unregister() {
	if m != nil {
		m.unregisterAll()
	}
}

func (m *metrics) failed() {
	if m != nil {
		m.failures.Inc()
	}
}

func (m *metrics) uploaded(kind string, size int64, duration time.Duration) {
	if m == nil {
		return
	}
	m.bytes.WithLabelValues(kind).Add(float64(size))
	m.duration.WithLabelValues(kind).Observe(duration.Seconds())
}
