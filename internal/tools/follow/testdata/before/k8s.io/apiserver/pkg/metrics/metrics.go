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
			StabilityLevel: metrics.ALPHA,
		},
		[]string{"mode"},
	)
	size    = metrics.NewDesc(metrics.BuildFQName("apiserver", "", "size_bytes"), "Size.", []string{"valve"}, nil, metrics.ALPHA, "")
	unknown = metrics.NewGauge(&metrics.GaugeOpts{Name: other.Name})
)
