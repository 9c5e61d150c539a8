package authz

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// RequestMetrics counts and measures authorizations, with the metric names of kube-apiserver. It is
// safe for concurrent use.
type RequestMetrics struct {
	attempts *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewRequestMetrics registers the metrics. It returns an error if one of them is already
// registered.
func NewRequestMetrics(registerer prometheus.Registerer) (*RequestMetrics, error) {
	m := &RequestMetrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "authorization_attempts_total", Help: "Number of authorizations, by result: allowed, denied, no-opinion or error.",
		}, []string{"result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "authorization_duration_seconds", Help: "Duration of authorizations in seconds, by result.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"result"}),
	}
	if err := errors.Join(registerer.Register(m.attempts), registerer.Register(m.duration)); err != nil {
		return nil, fmt.Errorf("register metrics of authorization: %w", err)
	}
	return m, nil
}

// Measured is an authorizer with metrics. Both fields are required. It is safe for concurrent use.
type Measured struct {
	Authorizer authorizer.Authorizer
	Metrics    *RequestMetrics
}

// Authorize implements authorizer.Authorizer.
func (m Measured) Authorize(ctx context.Context, a *authorizer.Attributes) (authorizer.Decision, string, error) {
	began := time.Now()
	decision, reason, err := m.Authorizer.Authorize(ctx, a)
	result := resultOf(decision, err)
	m.Metrics.attempts.WithLabelValues(result).Inc()
	took := time.Since(began)
	request.AddLatency(ctx, request.StageAuthorization, took)
	m.Metrics.duration.WithLabelValues(result).Observe(took.Seconds())
	return decision, reason, err
}

func resultOf(decision authorizer.Decision, err error) string {
	switch {
	case decision == authorizer.DecisionAllow:
		return "allowed"
	case err != nil:
		return "error"
	case decision == authorizer.DecisionDeny:
		return "denied"
	}
	return "no-opinion"
}
