package external

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/egress/socket"
)

// Metrics contains the metrics of a plugin, with kube-apiserver's names. A nil *Metrics records
// nothing. It is safe for concurrent use.
type Metrics struct {
	lastFetch, lastData prometheus.Gauge
	fetches, signatures *prometheus.CounterVec
	duration            *prometheus.HistogramVec
}

// NewMetrics creates and registers the metrics. It returns an error if they are already registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	const prefix = "apiserver_externaljwt_"
	m := &Metrics{
		lastFetch: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "fetch_keys_success_timestamp", Help: "[ALPHA] Unix Timestamp in seconds of the last successful FetchKeys request",
		}),
		lastData: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "fetch_keys_data_timestamp",
			Help: "[ALPHA] Unix Timestamp in seconds of the last successful FetchKeys data_timestamp value returned by the external signer",
		}),
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "fetch_keys_request_total", Help: "[ALPHA] Total attempts at syncing supported JWKs",
		}, []string{"code"}),
		signatures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "sign_request_total", Help: "[ALPHA] Total attempts at signing JWT",
		}, []string{"code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "request_duration_seconds", Help: "[ALPHA] Request duration and time for calls to external-jwt-signer",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"method", "code"}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.lastFetch, m.lastData, m.fetches, m.signatures, m.duration} {
		errs = append(errs, registerer.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics of the service account token plugin: %w", err)
	}
	return m, nil
}

// fetched counts a fetch. set is nil if err is not nil.
func (m *Metrics) fetched(set *keySet, err error) {
	if m == nil {
		return
	}
	m.fetches.WithLabelValues(socket.StatusCode(err)).Inc()
	if err == nil {
		m.lastFetch.SetToCurrentTime()
		m.lastData.Set(float64(set.dataTime.UnixNano()) / float64(time.Second))
	}
}

func (m *Metrics) signed(err error) {
	if m != nil {
		m.signatures.WithLabelValues(socket.StatusCode(err)).Inc()
	}
}

func (m *Metrics) called(method string, took time.Duration, err error) {
	if m != nil {
		m.duration.WithLabelValues(method, socket.StatusCode(err)).Observe(took.Seconds())
	}
}
