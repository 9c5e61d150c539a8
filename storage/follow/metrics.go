package follow

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts what Followers do, by their names. One is shared by all of a
// server. A nil *Metrics counts nothing.
type Metrics struct {
	current         *prometheus.GaugeVec
	lists, failures *prometheus.CounterVec
}

// NewMetrics registers the metrics of Followers.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	label := []string{"name"}
	m := &Metrics{
		current: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mainstay_follower_current", Help: "Whether what this server follows inside itself is being followed (1), or stands as it was when the storage failed (0).",
		}, label),
		lists: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mainstay_follower_lists_total", Help: "Number of times that all objects were read to begin following them, or to begin anew.",
		}, label),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mainstay_follower_failures_total", Help: "Number of attempts at following that failed.",
		}, label),
	}
	for _, c := range []prometheus.Collector{m.current, m.lists, m.failures} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of followers: %w", err)
		}
	}
	return m, nil
}

func (m *Metrics) following(name string, current bool) {
	if m == nil {
		return
	}
	value := 0.0
	if current {
		value = 1
	}
	m.current.WithLabelValues(name).Set(value)
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
