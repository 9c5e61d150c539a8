package admission

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics records the latencies of plugins and of passes, under kube-apiserver's metric names. It is safe for
// concurrent use. The methods of a nil *Metrics have no effect.
type Metrics struct {
	plugins, steps *prometheus.HistogramVec
}

// NewMetrics creates and registers the metrics. It returns an error if a metric is already
// registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		plugins: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_admission_controller_admission_duration_seconds",
			Help:    "Duration of an admission plugin in seconds, by plugin, operation, type (admit or validate) and whether the request was rejected.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1.0, 2.5},
		}, []string{"name", "type", "operation", "rejected"}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_admission_step_admission_duration_seconds",
			Help:    "Duration of all admission plugins in seconds, by operation, type (admit or validate) and whether the request was rejected.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1.0, 2.5},
		}, []string{"type", "operation", "rejected"}),
	}
	if err := errors.Join(registerer.Register(m.plugins), registerer.Register(m.steps)); err != nil {
		return nil, fmt.Errorf("register metrics of admission: %w", err)
	}
	return m, nil
}

// typeLabel returns the value of kube-apiserver's label "type" for a phase.
func typeLabel(phase string) string {
	if phase == mutating {
		return "admit"
	}
	return "validate"
}

// now returns the current time, or the zero time if metrics are disabled.
func (m *Metrics) now() time.Time {
	if m == nil {
		return time.Time{}
	}
	return time.Now()
}

func (m *Metrics) observePlugin(began time.Time, plugin, phase string, op Operation, err error) {
	if m != nil {
		m.plugins.WithLabelValues(plugin, typeLabel(phase), string(op), strconv.FormatBool(err != nil)).Observe(time.Since(began).Seconds())
	}
}

func (m *Metrics) observeStep(began time.Time, phase string, op Operation, err error) {
	if m != nil {
		m.steps.WithLabelValues(typeLabel(phase), string(op), strconv.FormatBool(err != nil)).Observe(time.Since(began).Seconds())
	}
}
