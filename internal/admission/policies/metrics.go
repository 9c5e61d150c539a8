package policies

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/cel/policy"
)

// Metrics contains the metrics of policies, under kube-apiserver's metric names. All control planes of a server
// share them. A nil *Metrics records nothing. Metrics is safe for concurrent use.
type Metrics struct {
	validations, mutations         *prometheus.CounterVec
	validationTimes, mutationTimes *prometheus.HistogramVec
}

// NewMetrics creates and registers the metrics. It returns an error if a metric is already
// registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	labels := []string{"policy", "policy_binding", "error_type"}
	enforced := append(labels[:len(labels):len(labels)], "enforcement_action")
	buckets := []float64{0.0000005, 0.001, 0.01, 0.1, 1.0}
	m := &Metrics{
		validations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_validating_admission_policy_check_total",
			Help: "Validation admission policy check total, labeled by policy and further identified by binding and enforcement action taken.",
		}, enforced),
		validationTimes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_validating_admission_policy_check_duration_seconds", Buckets: buckets,
			Help: "Validation admission latency for individual validation expressions in seconds, labeled by policy and further including binding and enforcement action taken.",
		}, enforced),
		mutations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_mutating_admission_policy_check_total",
			Help: "Mutation admission policy check total, labeled by policy and further identified by binding.",
		}, labels),
		mutationTimes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_mutating_admission_policy_check_duration_seconds", Buckets: buckets,
			Help: "Mutation admission latency for individual mutation expressions in seconds, labeled by policy and binding.",
		}, labels),
	}
	for _, c := range []prometheus.Collector{m.validations, m.validationTimes, m.mutations, m.mutationTimes} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of admission policies: %w", err)
		}
	}
	return m, nil
}

// errorType returns the value of the metric label for an evaluation error.
func errorType(err error) string {
	switch {
	case err == nil:
		return "no_error"
	case errors.Is(err, policy.ErrCompile):
		return "compile_error"
	case errors.Is(err, policy.ErrBudget):
		return "out_of_budget"
	}
	return "invalid_error"
}

// recordValidation counts a failed validation by its enforcement action.
func (m *Metrics) recordValidation(policyName, binding, action string, err error, took time.Duration) {
	if m == nil {
		return
	}
	kind := errorType(err)
	m.validations.WithLabelValues(policyName, binding, kind, action).Inc()
	m.validationTimes.WithLabelValues(policyName, binding, kind, action).Observe(took.Seconds())
}

// recordMutation counts a mutation.
func (m *Metrics) recordMutation(policyName, binding string, err error, took time.Duration) {
	if m == nil {
		return
	}
	kind := errorType(err)
	m.mutations.WithLabelValues(policyName, binding, kind).Inc()
	m.mutationTimes.WithLabelValues(policyName, binding, kind).Observe(took.Seconds())
}
