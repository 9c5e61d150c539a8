package archive

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/telemetry"
)

// metrics are the metrics of an archive. A nil *metrics is valid.
type metrics struct {
	unregisterAll func()

	interruptions, limits prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, a *Archive) (*metrics, error) {
	if registerer == nil {
		return nil, nil
	}
	m := &metrics{}
	var collectors []prometheus.Collector
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "mainstay_history_" + name, Help: help})
		collectors = append(collectors, c)
		return c
	}
	gauge := func(name, help string, value func() float64) {
		collectors = append(collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mainstay_history_" + name, Help: help}, value))
	}
	m.interruptions = counter("interruptions_total", "Number of times that the history stopped following the store and started again.")
	m.limits = counter("limited_total", "Number of times that the oldest part of the history was deleted because of its maximum size.")
	gauge("size_bytes", "Size of the history on disk, in bytes.", a.sizeMetric)
	gauge("oldest_timestamp_seconds", "Unix time of the oldest state in the history.", func() float64 { return seconds(a.oldestTime()) })
	gauge("newest_timestamp_seconds", "Unix time at which the history was equal to the store.", func() float64 { return seconds(a.newestTime()) })
	var err error
	if m.unregisterAll, err = telemetry.RegisterCollectors(registerer, append(collectors, resourceSizes{a})...); err != nil {
		return nil, fmt.Errorf("register the metrics of the history: %w", err)
	}
	return m, nil
}

func (m *metrics) unregister() {
	if m != nil {
		m.unregisterAll()
	}
}

func (m *metrics) interrupted() {
	if m != nil {
		m.interruptions.Inc()
	}
}

func (m *metrics) limited() {
	if m != nil {
		m.limits.Inc()
	}
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func (a *Archive) sizeMetric() float64 {
	db, err := a.acquire()
	if err != nil {
		return 0
	}
	defer a.release()
	return float64(db.size())
}

// oldestTime returns the time of the oldest state; zero if the archive is empty.
func (a *Archive) oldestTime() time.Time {
	if a.Position() == 0 {
		return time.Time{}
	}
	return a.oldest().time
}

func (a *Archive) newestTime() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.current
}

// resourceSizes is the metric of the size of each resource. Its label values are the resources of the
// archive, of which there are few.
type resourceSizes struct{ a *Archive }

func resourceSizeDesc() *prometheus.Desc {
	return prometheus.NewDesc("mainstay_history_resource_size_bytes", "Estimated size of the history of a resource on disk, in bytes.", []string{"resource"}, nil)
}

// Describe implements prometheus.Collector.
func (r resourceSizes) Describe(to chan<- *prometheus.Desc) { to <- resourceSizeDesc() }

// Collect implements prometheus.Collector.
func (r resourceSizes) Collect(to chan<- prometheus.Metric) {
	sizes, err := r.a.Sizes()
	if err != nil {
		return // the archive is closed, or being reopened
	}
	for resource, bytes := range sizes {
		to <- prometheus.MustNewConstMetric(resourceSizeDesc(), prometheus.GaugeValue, float64(bytes), resource)
	}
}
