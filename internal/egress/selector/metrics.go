package selector

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts connections through proxies, with the metric names of kube-apiserver. The methods
// of a nil *Metrics do nothing. It is safe for concurrent use.
type Metrics struct {
	starts, failures *prometheus.CounterVec
	duration         *prometheus.HistogramVec
}

// NewMetrics creates and registers the metrics. It returns an error if a metric is already
// registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		starts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_egress_dialer_dial_start_total", Help: "Dial starts, labeled by the protocol (http-connect or grpc) and transport (tcp or uds).",
		}, []string{"protocol", "transport"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_egress_dialer_dial_failure_count",
			Help: "Dial failure count, labeled by the protocol (http-connect or grpc), transport (tcp or uds), and stage (connect or proxy). The stage indicates at which stage the dial failed",
		}, []string{"protocol", "stage", "transport"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_egress_dialer_dial_duration_seconds", Help: "Dial latency histogram in seconds, labeled by the protocol (http-connect or grpc), transport (tcp or uds)",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 2.5, 12.5},
		}, []string{"protocol", "transport"}),
	}
	return m, errors.Join(registerer.Register(m.starts), registerer.Register(m.failures), registerer.Register(m.duration))
}

// dialing measures one dial.
type dialing struct {
	metrics             *Metrics
	protocol, transport string
	begun               time.Time
}

func (m *Metrics) begin(protocol, transport string) *dialing {
	if m != nil {
		m.starts.WithLabelValues(protocol, transport).Inc()
	}
	return &dialing{metrics: m, protocol: protocol, transport: transport, begun: time.Now()}
}

func (d *dialing) end(err error) {
	switch {
	case d.metrics == nil:
	case err == nil:
		d.metrics.duration.WithLabelValues(d.protocol, d.transport).Observe(time.Since(d.begun).Seconds())
	case errors.As(err, &proxyError{}):
		d.metrics.failures.WithLabelValues(d.protocol, "proxy", d.transport).Inc()
	default:
		d.metrics.failures.WithLabelValues(d.protocol, "connect", d.transport).Inc()
	}
}
