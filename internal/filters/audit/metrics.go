package audit

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics contains the metrics of audit events. Several sinks may share one Metrics. It is safe for
// concurrent use.
type Metrics struct {
	events   prometheus.Counter
	levels   *prometheus.CounterVec
	errors   *prometheus.CounterVec
	rejected prometheus.Counter
}

// NewMetrics creates and registers the metrics, which have kube-apiserver's names. It returns an
// error if one of them is already registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	options := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "apiserver_audit_" + name, Help: help}
	}
	m := &Metrics{
		events:   prometheus.NewCounter(prometheus.CounterOpts(options("event_total", "Counter of audit events generated and sent to the audit backend."))),
		levels:   prometheus.NewCounterVec(options("level_total", "Counter of policy levels for audit events (1 per request)."), []string{"level"}),
		errors:   prometheus.NewCounterVec(options("error_total", "Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected by the error."), []string{"plugin"}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts(options("requests_rejected_total", "Counter of apiserver requests rejected due to an error in audit logging backend."))),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.events, m.levels, m.errors, m.rejected} {
		errs = append(errs, registerer.Register(c))
	}
	return m, errors.Join(errs...)
}

// CountRequest counts a request by its audit level.
func (m *Metrics) CountRequest(level Level) { m.levels.WithLabelValues(string(level)).Inc() }

// CountRejected counts a request that was rejected because its event could not be recorded.
func (m *Metrics) CountRejected() { m.rejected.Inc() }
