// Package metrics is a fixture.
package metrics

const subsystem = "pump"

var (
	total = metrics.NewCounterVec(
		&metrics.CounterOpts{
			Namespace:      "apiserver",
			Subsystem:      subsystem,
			Name:           "liters_total",
			Help:           "Number of liters.",
			StabilityLevel: metrics.BETA,
		},
		[]string{"mode", "valve"},
	)
	size    = metrics.NewDesc(metrics.BuildFQName("apiserver", "", "valve_bytes"), "Size.", []string{"valve"}, nil, metrics.ALPHA, "")
	unknown = metrics.NewGauge(&metrics.GaugeOpts{Name: other.Name})
)
