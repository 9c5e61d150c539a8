package authn

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/request"
)

// ServiceAccountMetrics counts uses of service account tokens, with the metric names of
// kube-apiserver. It is safe for concurrent use.
type ServiceAccountMetrics struct {
	// legacy counts tokens without audiences. valid and stale count tokens with an extended lifetime before and
	// after their requested expiration. automatic, manual and invalid count tokens that are stored in secrets.
	legacy, stale, valid, automatic, manual, invalid prometheus.Counter
}

// NewServiceAccountMetrics registers the metrics. It returns an error if one of them is already
// registered.
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

// RequestMetrics counts authentications, with the metric names of kube-apiserver. It is safe for
// concurrent use.
type RequestMetrics struct {
	users, attempts *prometheus.CounterVec
	duration        *prometheus.HistogramVec
	expiration      prometheus.Histogram
}

// NewRequestMetrics registers the metrics. It returns an error if one of them is already
// registered.
func NewRequestMetrics(registerer prometheus.Registerer) (*RequestMetrics, error) {
	m := &RequestMetrics{
		users: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "authenticated_user_requests", Help: "Counter of authenticated requests broken out by username.",
		}, []string{"username"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "authentication_attempts", Help: "Counter of authenticated attempts.",
		}, []string{"result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "authentication_duration_seconds", Help: "Authentication duration in seconds broken out by result.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"result"}),
		expiration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "apiserver_client_certificate_expiration_seconds",
			Help:    "Distribution of the remaining lifetime on the certificate used to authenticate a request.",
			Buckets: []float64{0, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 345600, 604800, 2592000, 7776000, 15552000, 31104000},
		}),
	}
	if err := errors.Join(registerer.Register(m.users), registerer.Register(m.attempts), registerer.Register(m.duration), registerer.Register(m.expiration)); err != nil {
		return nil, fmt.Errorf("register metrics of authentication: %w", err)
	}
	return m, nil
}

// Expiration returns the histogram of the remaining lifetime of client certificates, in seconds. m
// must not be nil.
func (m *RequestMetrics) Expiration() prometheus.Observer { return m.expiration }

// Observe counts an authentication and its duration. found is nil if the authentication failed. err
// is then the reason, or nil if the request had no credentials. If m is nil, Observe does nothing.
func (m *RequestMetrics) Observe(found *request.Authentication, err error, took time.Duration) {
	if m == nil {
		return
	}
	result := "success"
	switch {
	case found != nil:
		m.users.WithLabelValues(userLabel(found.User.Name)).Inc()
	case err != nil:
		result = "error"
	default:
		result = "failure"
	}
	m.attempts.WithLabelValues(result).Inc()
	m.duration.WithLabelValues(result).Observe(took.Seconds())
}

// userLabel returns the label value for a user. Like kube-apiserver, it returns "other" for all but
// a few users, to limit the number of label values.
func userLabel(name string) string {
	switch name {
	case "admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default":
		return name
	}
	return "other"
}
