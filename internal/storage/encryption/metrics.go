package encryption

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/egress/socket"
	"mainstay.dev/mainstay/internal/storage/encryption/kms"
)

// Metrics are the metrics of encryption at rest, with kube-apiserver's names. A nil *Metrics
// discards all observations. It is safe for concurrent use.
type Metrics struct {
	kms        *kms.Metrics
	server     string
	latency    *prometheus.HistogramVec
	operations *prometheus.CounterVec
	reloads    *prometheus.CounterVec
	lastReload *prometheus.GaugeVec
	config     *configInfo
}

// NewMetrics creates the metrics and registers them. server is the identity of this server; labels
// contain its hash. It fails if the metrics are registered already.
func NewMetrics(registerer prometheus.Registerer, server string) (*Metrics, error) {
	plugins, err := kms.NewMetrics(registerer, server)
	if err != nil {
		return nil, err
	}
	m := &Metrics{
		kms: plugins, server: kms.Hash(server), config: newConfigInfo(),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_storage_transformation_duration_seconds", Help: "[ALPHA] Latencies in seconds of value transformation operations.",
			Buckets: prometheus.ExponentialBuckets(5e-6, 2, 25),
		}, []string{"transformation_type", "transformer_prefix"}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_storage_transformation_operations_total",
			Help: "[ALPHA] Total number of transformations. Successful transformation will have a status 'OK' and a varied status string when the transformation fails. The status, resource, and transformation_type fields can be used for alerting purposes. For example, you can monitor for encryption/decryption failures using the transformation_type (e.g., from_storage for decryption and to_storage for encryption). Additionally, these fields can be used to ensure that the correct transformers are applied to each resource.",
		}, []string{"resource", "transformation_type", "transformer_prefix", "status"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_encryption_config_controller_automatic_reloads_total",
			Help: "[ALPHA] Total number of reload successes and failures of encryption configuration split by apiserver identity.",
		}, []string{"status", "apiserver_id_hash"}),
		lastReload: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds",
			Help: "[ALPHA] Timestamp of the last successful or failed automatic reload of encryption configuration split by apiserver identity.",
		}, []string{"status", "apiserver_id_hash"}),
	}
	if err := errors.Join(registerer.Register(m.latency), registerer.Register(m.operations), registerer.Register(m.reloads), registerer.Register(m.lastReload), registerer.Register(m.config)); err != nil {
		return nil, fmt.Errorf("register metrics of encryption: %w", err)
	}
	return m, nil
}

func (m *Metrics) plugins() *kms.Metrics {
	if m == nil {
		return nil
	}
	return m.kms
}

func (m *Metrics) transformed(resource, direction, prefix string, took time.Duration, err error) {
	if m == nil {
		return
	}
	m.operations.WithLabelValues(resource, direction, prefix, socket.StatusCode(err)).Inc()
	if err == nil {
		m.latency.WithLabelValues(direction, prefix).Observe(took.Seconds())
	}
}

// loaded records the hash of the current configuration.
func (m *Metrics) loaded(hash string) {
	if m != nil {
		m.config.set(m.server, hash)
	}
}

// reloaded counts a reload of the file, which failed if err is not nil.
func (m *Metrics) reloaded(err error) {
	if m == nil {
		return
	}
	status := "success"
	if err != nil {
		status = "failure"
	}
	m.reloads.WithLabelValues(status, m.server).Inc()
	m.lastReload.WithLabelValues(status, m.server).SetToCurrentTime()
}

// configInfo is a metric with the hash of the configuration as a label.
type configInfo struct {
	desc *prometheus.Desc
	now  atomic.Pointer[prometheus.Metric]
}

func newConfigInfo() *configInfo {
	return &configInfo{desc: prometheus.NewDesc("apiserver_encryption_config_controller_last_config_info",
		"[ALPHA] Information about the last applied encryption configuration with hash as label, split by apiserver identity.", []string{"apiserver_id_hash", "hash"}, nil)}
}

func (c *configInfo) set(server, hash string) {
	metric := prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, 1, server, hash)
	c.now.Store(&metric)
}

// Describe implements prometheus.Collector.
func (c *configInfo) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements prometheus.Collector.
func (c *configInfo) Collect(to chan<- prometheus.Metric) {
	if metric := c.now.Load(); metric != nil {
		to <- *metric
	}
}
