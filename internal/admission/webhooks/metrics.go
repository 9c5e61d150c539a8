package webhooks

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/admission"
)

// Metrics contains the metrics of webhook calls, under kube-apiserver's metric names, and a gauge of open
// circuit breakers. It is safe for concurrent use. The methods of a nil *Metrics have no effect.
type Metrics struct {
	latency                       *prometheus.HistogramVec
	requests, rejections, ignored *prometheus.CounterVec
	open                          *prometheus.GaugeVec
	// The metrics of match conditions.
	evaluations      *prometheus.HistogramVec
	errors, excluded *prometheus.CounterVec
}

// NewMetrics creates and registers the metrics. It returns an error if a metric is already
// registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	conditions := []string{"name", "kind", "type", "operation"}
	m := &Metrics{
		evaluations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_admission_match_condition_evaluation_seconds",
			Help:    "Admission match condition evaluation time in seconds, identified by name and broken out for each kind containing matchConditions (webhook or policy), operation and type (validate or admit).",
			Buckets: []float64{0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25},
		}, conditions),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_match_condition_evaluation_errors_total",
			Help: "Admission match condition evaluation errors count, identified by name of resource containing the match condition and broken out for each kind containing matchConditions (webhook or policy), operation and admission type (validate or admit).",
		}, conditions),
		excluded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_match_condition_exclusions_total",
			Help: "Admission match condition evaluation exclusions count, identified by name of resource containing the match condition and broken out for each kind containing matchConditions (webhook or policy), operation and admission type (validate or admit).",
		}, conditions),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_admission_webhook_admission_duration_seconds",
			Help:    "Admission webhook latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10, 25},
		}, []string{"name", "type", "operation", "rejected"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_webhook_request_total",
			Help: "Admission webhook request total, identified by name and broken out for each admission type (validating or admit) and operation. Additional labels specify whether the request was rejected or not and an HTTP status code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
		}, []string{"name", "type", "operation", "code", "rejected"}),
		rejections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_webhook_rejection_count",
			Help: "Admission webhook rejection count, identified by name and broken out for each admission type (validating or admit) and operation. Additional labels specify an error type (calling_webhook_error or apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection code if the webhook rejects the request with an HTTP status code (honored by the apiserver when the code is greater or equal to 400). Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
		}, []string{"name", "type", "operation", "error_type", "rejection_code"}),
		ignored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_webhook_fail_open_count",
			Help: "Admission webhook fail open count, identified by name and broken out for each admission type (validating or admit).",
		}, []string{"name", "type"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mainstay_admission_webhook_circuit_open",
			Help: "1 for a webhook that has failed several times in a row and is called less often until it responds.",
		}, []string{"configuration", "name", "type"}),
	}
	err := errors.Join(registerer.Register(m.latency), registerer.Register(m.requests), registerer.Register(m.rejections),
		registerer.Register(m.ignored), registerer.Register(m.open),
		registerer.Register(m.evaluations), registerer.Register(m.errors), registerer.Register(m.excluded))
	if err != nil {
		return nil, fmt.Errorf("register metrics of admission webhooks: %w", err)
	}
	return m, nil
}

// codeLabel limits the number of label values, because a webhook may respond with any status code.
func codeLabel(code int) string { return strconv.Itoa(min(max(code, 0), 600)) }

func (m *Metrics) recordCall(h *configuredWebhook, step string, op admission.Operation, took time.Duration, code int, rejected bool) {
	if m == nil {
		return
	}
	m.requests.WithLabelValues(h.spec.Name, step, string(op), codeLabel(code), strconv.FormatBool(rejected)).Inc()
	m.latency.WithLabelValues(h.spec.Name, step, string(op), strconv.FormatBool(rejected)).Observe(took.Seconds())
}

func (m *Metrics) recordRejection(h *configuredWebhook, step string, op admission.Operation, why string, code int) {
	if m != nil {
		m.rejections.WithLabelValues(h.spec.Name, step, string(op), why, codeLabel(code)).Inc()
	}
}

func (m *Metrics) recordFailOpen(h *configuredWebhook, step string) {
	if m != nil {
		m.ignored.WithLabelValues(h.spec.Name, step).Inc()
	}
}

// recordMatch records the evaluation of a webhook's match conditions.
func (m *Metrics) recordMatch(h *configuredWebhook, mutates bool, op admission.Operation, took time.Duration, matches bool, err error) {
	if m == nil {
		return
	}
	step := "validate" // as in kube-apiserver, not the label of calls
	if mutates {
		step = "admit"
	}
	m.evaluations.WithLabelValues(h.spec.Name, "webhook", step, string(op)).Observe(took.Seconds())
	switch {
	case err != nil:
		m.errors.WithLabelValues(h.spec.Name, "webhook", step, string(op)).Inc()
	case !matches:
		m.excluded.WithLabelValues(h.spec.Name, "webhook", step, string(op)).Inc()
	}
}

// setCircuitOpen records that the circuit of a webhook opened or closed.
func (m *Metrics) setCircuitOpen(h *configuredWebhook, step string, open bool) {
	switch {
	case m == nil:
	case open:
		m.open.WithLabelValues(h.configuration, h.spec.Name, step).Set(1)
	default:
		m.open.DeleteLabelValues(h.configuration, h.spec.Name, step)
	}
}

// deleteSeries deletes the gauge of a webhook that was removed.
func (m *Metrics) deleteSeries(h *configuredWebhook) {
	if m != nil {
		m.open.DeletePartialMatch(prometheus.Labels{"configuration": h.configuration, "name": h.spec.Name})
	}
}
