package aggregated

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts how other servers are reached, under kube-apiserver's names. One
// is shared by all Sources of a host; a nil *Metrics counts nothing.
type Metrics struct {
	unavailable      *prometheus.GaugeVec
	unavailableTotal *prometheus.CounterVec
}

// NewMetrics registers the metrics of aggregation.
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
			return nil, fmt.Errorf("register metrics of aggregation: %w", err)
		}
	}
	return m, nil
}

// observe notes a verdict; news tells that it is another one than before.
func (m *Metrics) observe(name string, v verdict, news bool) {
	if m == nil {
		return
	}
	if v.passed() {
		m.unavailable.WithLabelValues(name).Set(0)
		return
	}
	m.unavailable.WithLabelValues(name).Set(1)
	if news {
		m.unavailableTotal.WithLabelValues(name, v.reason).Inc()
	}
}

// forget drops what is known of a registration that is gone.
func (m *Metrics) forget(name string) {
	if m != nil {
		m.unavailable.DeleteLabelValues(name)
	}
}
