package aggregated

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics have the names and labels of kube-apiserver's.
type metrics struct {
	unavailable      *prometheus.GaugeVec
	unavailableTotal *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		unavailable: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "aggregator_unavailable_apiservice",
			Help: "Gauge of APIServices which are marked as unavailable broken down by APIService name.",
		}, []string{"name"}),
		unavailableTotal: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aggregator_unavailable_apiservice_total",
			Help: "Counter of APIServices which are marked as unavailable broken down by APIService name and reason.",
		}, []string{"name", "reason"}),
	}
}

func (m *metrics) register(registerer prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{m.unavailable, m.unavailableTotal} {
		if err := registerer.Register(c); err != nil {
			return fmt.Errorf("register metrics of aggregation: %w", err)
		}
	}
	return nil
}

// observe notes a verdict; news tells that it is another one than before.
func (m *metrics) observe(name string, v verdict, news bool) {
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
func (m *metrics) forget(name string) { m.unavailable.DeleteLabelValues(name) }
