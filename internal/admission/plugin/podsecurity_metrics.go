package plugin

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/podsecurity"
)

// Values of the labels of PodSecurity's metrics.
const (
	allowed = "allow"
	denied  = "deny"

	enforceMode = "enforce"
	auditMode   = "audit"
	warnMode    = "warn"

	// newestPolicyMinor is the minor version of the served API. All later policy versions share one label
	// value.
	newestPolicyMinor = 37
)

// PodSecurityMetrics counts the evaluations, exemptions and errors of PodSecurity, under kube-apiserver's
// metric names. It is safe for concurrent use. A nil *PodSecurityMetrics records nothing.
type PodSecurityMetrics struct {
	evaluations, exemptions, errors *prometheus.CounterVec
	// privileged counts pods that are created under the level privileged, which is the most frequent case.
	privileged prometheus.Counter
}

// NewPodSecurityMetrics creates and registers the metrics. It returns an error if a metric is
// already registered.
func NewPodSecurityMetrics(registerer prometheus.Registerer) (*PodSecurityMetrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &PodSecurityMetrics{
		evaluations: counter("pod_security_evaluations_total", "Number of policy evaluations that occurred, not counting ignored or exempt requests.",
			"decision", "policy_level", "policy_version", "mode", "request_operation", "resource", "subresource"),
		exemptions: counter("pod_security_exemptions_total", "Number of exempt requests, not counting ignored or out of scope requests.",
			"request_operation", "resource", "subresource"),
		errors: counter("pod_security_errors_total", "Number of errors preventing normal evaluation. Non-fatal errors may result in the latest restricted profile being used for evaluation.",
			"fatal", "request_operation", "resource", "subresource"),
	}
	if err := errors.Join(registerer.Register(m.evaluations), registerer.Register(m.exemptions), registerer.Register(m.errors)); err != nil {
		return nil, fmt.Errorf("register metrics of pod security: %w", err)
	}
	m.privileged = m.evaluations.WithLabelValues(allowed, podsecurity.Privileged.String(), "latest", enforceMode, "create", "pod", "")
	return m, nil
}

func (m *PodSecurityMetrics) countEvaluation(a *admission.Attributes, decision, mode string, level podsecurity.LevelVersion) {
	if m == nil {
		return
	}
	version := level.Version.String()
	switch {
	case level.Level == podsecurity.Privileged:
		if a.Operation == admission.Create && a.Resource.Name == "pods" && a.Resource.Subresource == "" {
			m.privileged.Inc()
			return
		}
		version = "latest"
	case level.Version.NewerThan(newestPolicyMinor):
		version = "future"
	}
	labels := append([]string{decision, level.Level.String(), version, mode}, requestLabels(a)...)
	m.evaluations.WithLabelValues(labels...).Inc()
}

func (m *PodSecurityMetrics) countExemption(a *admission.Attributes) {
	if m != nil {
		m.exemptions.WithLabelValues(requestLabels(a)...).Inc()
	}
}

// countError counts an error. A fatal error prevents the evaluation. After a non-fatal error, the pod is
// evaluated against a policy other than the intended one.
func (m *PodSecurityMetrics) countError(a *admission.Attributes, fatal bool) {
	if m != nil {
		m.errors.WithLabelValues(append([]string{strconv.FormatBool(fatal)}, requestLabels(a)...)...).Inc()
	}
}

// requestLabels returns the label values of a request: operation, resource and subresource.
func requestLabels(a *admission.Attributes) []string {
	resource := "controller"
	switch a.Resource.Name {
	case "pods":
		resource = "pod"
	case "namespaces":
		resource = "namespace"
	}
	return []string{strings.ToLower(string(a.Operation)), resource, a.Resource.Subresource}
}
