package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics contains the metrics of webhooks and their conditions, with the metric names of
// kube-apiserver. The methods of a nil *Metrics do nothing. Metrics is safe for concurrent use.
type Metrics struct {
	evaluations, failOpen, conditionErrors, exclusions *prometheus.CounterVec
	duration, conditionDuration                        *prometheus.HistogramVec
}

// NewMetrics registers the metrics. It returns an error if one of them is already registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_authorization_" + name, Help: help}, labels)
	}
	m := &Metrics{
		evaluations:     counter("webhook_evaluations_total", "Round-trips to authorization webhooks.", "name", "result"),
		failOpen:        counter("webhook_evaluations_fail_open_total", "NoOpinion results due to webhook timeout or error.", "name", "result"),
		conditionErrors: counter("match_condition_evaluation_errors_total", "Total number of errors when an authorization webhook encounters a match condition error split by authorizer type and name.", "type", "name"),
		exclusions:      counter("match_condition_exclusions_total", "Total number of exclusions when an authorization webhook is skipped because match conditions exclude it.", "type", "name"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_authorization_webhook_duration_seconds", Help: "Request latency in seconds.", Buckets: prometheus.DefBuckets,
		}, []string{"name", "result"}),
		conditionDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_authorization_match_condition_evaluation_seconds", Help: "Authorization match condition evaluation time in seconds, split by authorizer type and name.",
			Buckets: []float64{0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25},
		}, []string{"type", "name"}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.evaluations, m.failOpen, m.conditionErrors, m.exclusions, m.duration, m.conditionDuration} {
		errs = append(errs, registerer.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics of authorization webhooks: %w", err)
	}
	return m, nil
}

// resultOf returns the metric label for the result of a webhook call. ctx is the context of the
// client's request.
func resultOf(ctx context.Context, err error) string {
	var slow net.Error
	switch {
	case err == nil:
		return "success"
	case ctx.Err() != nil:
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout():
		return "timeout"
	}
	return "error"
}

func (m *Metrics) observeCall(name, result string, took time.Duration) {
	if m != nil {
		m.evaluations.WithLabelValues(name, result).Inc()
		m.duration.WithLabelValues(name, result).Observe(took.Seconds())
	}
}

func (m *Metrics) countFailOpen(name, result string) {
	if m != nil {
		m.failOpen.WithLabelValues(name, result).Inc()
	}
}

func (m *Metrics) observeMatch(name string, matches bool, err error, took time.Duration) {
	if m == nil {
		return
	}
	m.conditionDuration.WithLabelValues("Webhook", name).Observe(took.Seconds())
	switch {
	case err != nil:
		m.conditionErrors.WithLabelValues("Webhook", name).Inc()
	case !matches:
		m.exclusions.WithLabelValues("Webhook", name).Inc()
	}
}
