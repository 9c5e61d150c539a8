package oidc

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics contains the metrics of providers, with the metric names of kube-apiserver. The labels contain hashes
// of the issuers. The methods of a nil *Metrics do nothing. Metrics is safe for concurrent use.
type Metrics struct {
	latency   *prometheus.HistogramVec
	lastFetch *prometheus.GaugeVec
}

// NewMetrics registers the metrics. identified must add a label with the identity of the server, as the
// registerer of telemetry.WithServerID does. It returns an error if one of the metrics is already registered.
func NewMetrics(registerer, identified prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_authentication_jwt_authenticator_latency_seconds", Help: "Latency of jwt authentication operations in seconds. This is the time spent authenticating a token for cache miss only (i.e. when the token is not found in the cache).",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"result", "jwt_issuer_hash"}),
		lastFetch: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds", Help: "[ALPHA] Timestamp of the last successful or failed JWKS fetch split by result, api server identity and jwt issuer for the JWT authenticator.",
		}, []string{"result", "jwt_issuer_hash"}),
	}
	if err := errors.Join(registerer.Register(m.latency), identified.Register(m.lastFetch)); err != nil {
		return nil, fmt.Errorf("register metrics of OpenID Connect: %w", err)
	}
	return m, nil
}

func result(err error) string {
	if err != nil {
		return "failure"
	}
	return "success"
}

func hash(issuer string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(issuer))) }

func (m *Metrics) observe(issuer string, err error, took time.Duration) {
	if m != nil {
		m.latency.WithLabelValues(result(err), hash(issuer)).Observe(took.Seconds())
	}
}

func (m *Metrics) fetched(issuer string, err error) {
	if m != nil {
		m.lastFetch.WithLabelValues(result(err), hash(issuer)).SetToCurrentTime()
	}
}
