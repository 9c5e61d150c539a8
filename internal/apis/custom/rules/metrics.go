package rules

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics contains the durations of compilations and evaluations of validation rules, with kube-apiserver's
// names. One observation covers the rules of one value, without the rules of its children. Metrics is safe for
// concurrent use. A nil *Metrics records nothing.
type Metrics struct {
	compilation, evaluation prometheus.Histogram
}

// NewMetrics creates and registers the metrics. It returns an error if they are already registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		compilation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "apiserver_cel_compilation_duration_seconds", Help: "CEL compilation time in seconds.",
		}),
		evaluation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "apiserver_cel_evaluation_duration_seconds", Help: "CEL evaluation time in seconds.",
		}),
	}
	if err := errors.Join(registerer.Register(m.compilation), registerer.Register(m.evaluation)); err != nil {
		return nil, fmt.Errorf("register validation rule metrics: %w", err)
	}
	return m, nil
}

// now returns the current time. It returns the zero time without metrics, to save the clock read.
func (m *Metrics) now() time.Time {
	if m == nil {
		return time.Time{}
	}
	return time.Now()
}

func (m *Metrics) observeCompilation(started time.Time) {
	if m != nil {
		m.compilation.Observe(time.Since(started).Seconds())
	}
}

func (m *Metrics) observeEvaluation(started time.Time) {
	if m != nil {
		m.evaluation.Observe(time.Since(started).Seconds())
	}
}
