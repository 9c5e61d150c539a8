package authn

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// ServiceAccountMetrics count uses of service account tokens, by kube-apiserver's
// names.
type ServiceAccountMetrics struct {
	// legacy are tokens without audiences; stale and valid those that were extended,
	// after and before the time that their client asked for; automatic, manual and
	// invalid those of secrets.
	legacy, stale, valid, automatic, manual, invalid prometheus.Counter
}

// NewServiceAccountMetrics registers the metrics.
func NewServiceAccountMetrics(registerer prometheus.Registerer) (*ServiceAccountMetrics, error) {
	var errs []error
	register := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "serviceaccount_" + name, Help: help})
		errs = append(errs, registerer.Register(c))
		return c
	}
	m := &ServiceAccountMetrics{
		legacy:    register("legacy_tokens_total", "Cumulative legacy service account tokens used"),
		stale:     register("stale_tokens_total", "Cumulative stale projected service account tokens used"),
		valid:     register("valid_tokens_total", "Cumulative valid projected service account tokens used"),
		automatic: register("legacy_auto_token_uses_total", "Cumulative auto-generated legacy tokens used"),
		manual:    register("legacy_manual_token_uses_total", "Cumulative manually created legacy tokens used"),
		invalid:   register("invalid_legacy_auto_token_uses_total", "Cumulative invalid auto-generated legacy tokens used"),
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics of service account tokens: %w", err)
	}
	return m, nil
}
