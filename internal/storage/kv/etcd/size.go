package etcd

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// sizeTimeout is the timeout of the request to etcd during a scrape of the metrics, as in kube-apiserver.
const sizeTimeout = time.Second

// sizeMetric is the metric of etcd's database size. It requests the size when the metrics are scraped, and
// caches it for Config.SizeInterval. If etcd does not respond, the metric is absent.
type sizeMetric struct {
	store *Store
	desc  *prometheus.Desc

	mu    sync.Mutex // held during the request to etcd
	bytes float64
	until time.Time // bytes is valid until this time
}

func newSizeMetric(s *Store) *sizeMetric {
	return &sizeMetric{store: s, desc: prometheus.NewDesc("apiserver_storage_size_bytes",
		"[STABLE] Size of the storage database file physically allocated in bytes.", nil, nil)}
}

// Describe implements prometheus.Collector.
func (m *sizeMetric) Describe(ch chan<- *prometheus.Desc) { ch <- m.desc }

// Collect implements prometheus.Collector.
func (m *sizeMetric) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Now().After(m.until) {
		bytes, err := m.store.size()
		if err != nil {
			m.store.log.Debug("the size of etcd's database is not known", "err", err)
			return
		}
		m.bytes, m.until = float64(bytes), time.Now().Add(m.store.config.SizeInterval)
	}
	ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, m.bytes)
}

// size returns the size of the database of the first endpoint, in bytes.
func (s *Store) size() (int64, error) {
	ctx, leave, err := s.beginCall(s.ctx, false)
	if err != nil {
		return 0, err
	}
	defer leave()
	status, err := call(ctx, s, callSpec{name: "status", timeout: sizeTimeout, repeat: repeatRead}, func(ctx context.Context, _ ...grpc.CallOption) (*clientv3.StatusResponse, error) {
		return s.client.Status(ctx, s.config.Endpoints[0])
	})
	if err != nil {
		return 0, err
	}
	return status.DbSize, nil
}
