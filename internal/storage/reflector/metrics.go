package reflector

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics of all Reflectors of a server, labeled by name. A nil *Metrics records
// nothing. It is safe for concurrent use.
type Metrics struct {
	synced          *prometheus.GaugeVec
	lists, failures *prometheus.CounterVec
}

// NewMetrics creates the metrics of Reflectors and registers them. It fails if they are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	label := []string{"name"}
	m := &Metrics{
		synced: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mainstay_reflector_current", Help: "1 if the watch of a collection that configures this server is open; 0 while the server tries to open it again after a failure.",
		}, label),
		lists: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mainstay_reflector_lists_total", Help: "Number of times that a collection was listed before watching it, or again after a failure.",
		}, label),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mainstay_reflector_failures_total", Help: "Number of attempts to list or watch a collection that failed.",
		}, label),
	}
	for _, c := range []prometheus.Collector{m.synced, m.lists, m.failures} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of reflectors: %w", err)
		}
	}
	return m, nil
}

func (m *Metrics) setCurrent(name string, current bool) {
	if m == nil {
		return
	}
	value := 0.0
	if current {
		value = 1
	}
	m.synced.WithLabelValues(name).Set(value)
}

func (m *Metrics) listed(name string) {
	if m != nil {
		m.lists.WithLabelValues(name).Inc()
	}
}

func (m *Metrics) failed(name string) {
	if m != nil {
		m.failures.WithLabelValues(name).Inc()
	}
}
