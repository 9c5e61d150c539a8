package fleet

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultSeries is the default maximum number of control planes that have their own series.
const DefaultSeries = 100

// Metrics collects the metrics of a fleet as a prometheus.Collector. It collects nothing before the fleet has
// started. It is safe for concurrent use.
type Metrics struct {
	// series is the maximum number of control planes that have their own series.
	series int
	fleet  atomic.Pointer[Fleet]

	declared, open             *prometheus.Desc
	requests, rejected, stored *prometheus.Desc
}

// NewMetrics registers the metrics of a fleet. series is the maximum number of control planes that have their
// own series; the control planes with the most requests are selected. NewMetrics returns an error if the
// metrics are already registered.
func NewMetrics(registerer prometheus.Registerer, series int) (*Metrics, error) {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("mainstay_"+name, help, labels, nil)
	}
	const of = "control_plane"
	m := &Metrics{
		series:   series,
		declared: describe("control_planes", "Number of ControlPlane objects."),
		open:     describe("control_planes_open", "Number of control planes of ControlPlane objects that are open in this process."),
		requests: describe("control_plane_requests_total", "Number of requests to a control plane, including requests that its limits have rejected.", of),
		rejected: describe("control_plane_rejected_requests_total", "Number of requests that were rejected because of the limits of a control plane.", of),
		stored:   describe("control_plane_stored_bytes", "Size of the stored objects of a control plane, in bytes, if this process has determined it.", of),
	}
	return m, registerer.Register(m)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.declared, m.open, m.requests, m.rejected, m.stored} {
		descriptions <- d
	}
}

// measured contains the metric values of one control plane.
type measured struct {
	name               string
	open               bool
	requests, rejected int64
	bytes              int64
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	f := m.fleet.Load()
	if f == nil {
		return
	}
	var all []measured
	open := 0
	for _, p := range f.all() {
		values := p.measure()
		if all = append(all, values); values.open {
			open++
		}
	}
	metrics <- prometheus.MustNewConstMetric(m.declared, prometheus.GaugeValue, float64(len(all)))
	metrics <- prometheus.MustNewConstMetric(m.open, prometheus.GaugeValue, float64(open))
	slices.SortFunc(all, func(x, y measured) int {
		return cmp.Or(cmp.Compare(y.requests, x.requests), cmp.Compare(x.name, y.name))
	})
	for _, values := range all[:min(len(all), m.series)] {
		if values.requests == 0 {
			break
		}
		metrics <- prometheus.MustNewConstMetric(m.requests, prometheus.CounterValue, float64(values.requests), values.name)
		metrics <- prometheus.MustNewConstMetric(m.rejected, prometheus.CounterValue, float64(values.rejected), values.name)
		if values.bytes > 0 {
			metrics <- prometheus.MustNewConstMetric(m.stored, prometheus.GaugeValue, float64(values.bytes), values.name)
		}
	}
}

// measure returns the values for metrics.
func (p *plane) measure() measured {
	p.mu.Lock()
	defer p.mu.Unlock()
	values := measured{name: p.key.name, open: p.mu.session != nil}
	if l := p.mu.limits; l != nil {
		values.requests, values.rejected = l.requested.Load(), l.rejected.Load()
		_, values.bytes = l.usage.get()
	}
	return values
}
