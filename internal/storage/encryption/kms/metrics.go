package kms

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/lru"

	"mainstay.dev/mainstay/internal/egress/socket"
)

// Values of the metric label transformation_type: decryption and encryption.
const (
	FromStorage = "from_storage"
	ToStorage   = "to_storage"
)

// maxKeyIDs is the maximum number of keys with their own metrics. The least recently used keys are
// dropped.
const maxKeyIDs = 100

// Metrics are the metrics of all Providers of a server, with kube-apiserver's names. Labels contain
// hashes of the key IDs and of the server's ID. They are safe for concurrent use.
type Metrics struct {
	calls         *prometheus.HistogramVec
	used          *prometheus.CounterVec
	usedLast      *prometheus.GaugeVec
	statusLast    *prometheus.GaugeVec
	invalid       *prometheus.CounterVec
	sources       *prometheus.GaugeVec
	misses        prometheus.Counter
	generated     prometheus.Histogram
	notGenerated  prometheus.Counter
	server        string
	mu            sync.Mutex // guards keys and current, so that dropped metrics are not updated concurrently
	keys, current *lru.Cache
}

// NewMetrics creates the metrics and registers them. server is the identity of this server. It fails
// if the metrics are registered already.
func NewMetrics(registerer prometheus.Registerer, server string) (*Metrics, error) {
	const envelope = "apiserver_envelope_encryption_"
	m := &Metrics{
		server: Hash(server),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: envelope + "kms_operations_latency_seconds", Help: "[ALPHA] KMS operation duration with gRPC error code status total.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 20),
		}, []string{"provider_name", "method_name", "grpc_status_code"}),
		used: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: envelope + "key_id_hash_total", Help: "[ALPHA] Number of times a keyID is used split by transformation type, provider, and apiserver identity.",
		}, []string{"transformation_type", "provider_name", "key_id_hash", "apiserver_id_hash"}),
		usedLast: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: envelope + "key_id_hash_last_timestamp_seconds", Help: "[ALPHA] The last time in seconds when a keyID was used.",
		}, []string{"transformation_type", "provider_name", "key_id_hash", "apiserver_id_hash"}),
		statusLast: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: envelope + "key_id_hash_status_last_timestamp_seconds", Help: "[ALPHA] The last time in seconds when a keyID was returned by the Status RPC call.",
		}, []string{"provider_name", "key_id_hash", "apiserver_id_hash"}),
		invalid: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: envelope + "invalid_key_id_from_status_total", Help: "[ALPHA] Number of times an invalid keyID is returned by the Status RPC call split by error.",
		}, []string{"provider_name", "error"}),
		sources: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: envelope + "dek_source_cache_size",
			Help: "[ALPHA] Number of records in data encryption key (DEK) source cache. On a restart, this value is an approximation of the number of decrypt RPC calls the server will make to the KMS plugin.",
		}, []string{"provider_name"}),
		misses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_storage_envelope_transformation_cache_misses_total", Help: "[ALPHA] Total number of cache misses while accessing key decryption key(KEK).",
		}),
		generated: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "apiserver_storage_data_key_generation_duration_seconds", Help: "[ALPHA] Latencies in seconds of data encryption key(DEK) generation operations.",
			Buckets: prometheus.ExponentialBuckets(5e-6, 2, 14),
		}),
		notGenerated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_storage_data_key_generation_failures_total", Help: "[ALPHA] Total number of failed data encryption key(DEK) generation operations.",
		}),
	}
	m.keys = lru.NewWithEvictionFunc(maxKeyIDs, func(key lru.Key, _ any) {
		labels := key.([3]string)
		m.used.DeleteLabelValues(labels[0], labels[1], labels[2], m.server)
		m.usedLast.DeleteLabelValues(labels[0], labels[1], labels[2], m.server)
	})
	m.current = lru.NewWithEvictionFunc(maxKeyIDs, func(key lru.Key, _ any) {
		labels := key.([2]string)
		m.statusLast.DeleteLabelValues(labels[0], labels[1], m.server)
	})
	var errs []error
	for _, c := range []prometheus.Collector{m.calls, m.used, m.usedLast, m.statusLast, m.invalid, m.sources, m.misses, m.generated, m.notGenerated} {
		errs = append(errs, registerer.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics of key management services: %w", err)
	}
	return m, nil
}

// keyUsed counts an operation with a key. key is the hash of the key ID.
func (m *Metrics) keyUsed(transformation, provider, key string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys.Add([3]string{transformation, provider, key}, nil)
	m.used.WithLabelValues(transformation, provider, key, m.server).Inc()
	m.usedLast.WithLabelValues(transformation, provider, key, m.server).SetToCurrentTime()
}

// keyReported records that a plugin returned a key ID. key is the hash of the key ID.
func (m *Metrics) keyReported(provider, key string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current.Add([2]string{provider, key}, nil)
	m.statusLast.WithLabelValues(provider, key, m.server).SetToCurrentTime()
}

func (m *Metrics) keyInvalid(provider, word string) {
	if m != nil {
		m.invalid.WithLabelValues(provider, word).Inc()
	}
}

func (m *Metrics) called(provider, method string, took time.Duration, err error) {
	if m != nil {
		m.calls.WithLabelValues(provider, method, socket.StatusCode(err)).Observe(took.Seconds())
	}
}

// missed counts a source that the plugin must decrypt.
func (m *Metrics) missed() {
	if m != nil {
		m.misses.Inc()
	}
}

func (m *Metrics) cached(provider string, n int) {
	if m != nil {
		m.sources.WithLabelValues(provider).Set(float64(n))
	}
}

func (m *Metrics) seedMade(took time.Duration) {
	if m != nil {
		m.generated.Observe(took.Seconds())
	}
}

// Hash returns the hash that replaces a sensitive name in metrics and messages.
func Hash(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(name)))
}
