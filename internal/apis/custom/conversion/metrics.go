package conversion

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Classes of failures in kube-apiserver's metrics.
const (
	callFailure       = "conversion_webhook_call_failure"
	malformedResponse = "conversion_webhook_malformed_response_failure"
	partialResponse   = "conversion_webhook_partial_response_failure"
	invalidConverted  = "conversion_webhook_invalid_converted_object_failure"
)

// Metrics are the metrics of conversions, with kube-apiserver's names. A nil *Metrics records nothing. It is
// safe for concurrent use.
type Metrics struct {
	requests            *prometheus.CounterVec
	latency, conversion *prometheus.HistogramVec
}

// NewMetrics creates and registers the metrics. It returns an error if they are already registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	byResult, byVersion := []string{"result", "failure_type"}, []string{"crd_name", "from_version", "to_version", "succeeded"}
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_conversion_webhook_request_total",
			Help: "Counter for conversion webhook requests with success/failure and failure error type",
		}, byResult),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_conversion_webhook_duration_seconds", Help: "Conversion webhook request latency",
			Buckets: []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 45, 60},
		}, byResult),
		conversion: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_crd_conversion_webhook_duration_seconds", Help: "CRD webhook conversion duration in seconds",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, byVersion),
	}
	if err := errors.Join(registerer.Register(m.requests), registerer.Register(m.latency), registerer.Register(m.conversion)); err != nil {
		return nil, fmt.Errorf("register conversion metrics: %w", err)
	}
	return m, nil
}

// observe records one webhook call.
func (m *Metrics) observe(definition, from, to string, failed *fault, took time.Duration) {
	if m == nil {
		return
	}
	result, class := "success", ""
	if failed != nil {
		result, class = "failure", failed.class
	}
	m.requests.WithLabelValues(result, class).Inc()
	m.latency.WithLabelValues(result, class).Observe(took.Seconds())
	m.conversion.WithLabelValues(definition, from, to, strconv.FormatBool(failed == nil)).Observe(took.Seconds())
}
