package aggregated

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the availability metrics of APIServices, with kube-apiserver's names. All Sources of
// a host share them. A nil *Metrics records nothing. It is safe for concurrent use.
type Metrics struct {
	unavailable      *prometheus.GaugeVec
	unavailableTotal *prometheus.CounterVec
}

// NewMetrics creates and registers the metrics. It returns an error if they are already registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		unavailable: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "aggregator_unavailable_apiservice",
			Help: "Gauge of APIServices which are marked as unavailable broken down by APIService name.",
		}, []string{"name"}),
		unavailableTotal: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aggregator_unavailable_apiservice_total",
			Help: "Counter of APIServices which are marked as unavailable broken down by APIService name and reason.",
		}, []string{"name", "reason"}),
	}
	for _, c := range []prometheus.Collector{m.unavailable, m.unavailableTotal} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register aggregation metrics: %w", err)
		}
	}
	return m, nil
}

// observe records the result of a check. changed is true if the result differs from the previous result.
func (m *Metrics) observe(name string, v availability, changed bool) {
	if m == nil {
		return
	}
	if v.passed() {
		m.unavailable.WithLabelValues(name).Set(0)
		return
	}
	m.unavailable.WithLabelValues(name).Set(1)
	if changed {
		m.unavailableTotal.WithLabelValues(name, v.reason).Inc()
	}
}

// forget removes the series of an APIService.
func (m *Metrics) forget(name string) {
	if m != nil {
		m.unavailable.DeleteLabelValues(name)
	}
}
