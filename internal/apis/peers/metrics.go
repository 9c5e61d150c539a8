package peers

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Values of the label "type", which names the cause of a failed discovery request.
const (
	syncAddress = "hostport_resolution"
	syncFetch   = "fetch_discovery"
)

// Metrics contains the metrics of all Sources of a host. They have the same names as in kube-apiserver. Metrics
// is safe for concurrent use.
type Metrics struct {
	requests *prometheus.CounterVec
	syncs    *prometheus.CounterVec
}

// NewMetrics creates and registers the metrics. It returns an error if they are already registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_rerouted_request_total",
			Help: `[ALPHA] Total number of requests that were proxied to a peer kube-apiserver because the local apiserver was not capable of serving it, broken down by 'group', 'version', and 'resource' indicating the GVR of the request. If all three are empty (""), the request is a discovery request.`,
		}, []string{"code", "group", "version", "resource"}),
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_peer_discovery_sync_errors_total",
			Help: "[ALPHA] Total number of errors encountered while syncing discovery information from a peer kube-apiserver",
		}, []string{"type"}),
	}
	if err := errors.Join(registerer.Register(m.requests), registerer.Register(m.syncs)); err != nil {
		return nil, fmt.Errorf("register metrics of peers: %w", err)
	}
	return m, nil
}

func (m *Metrics) rerouted(code int, resource schema.GroupVersionResource) {
	m.requests.WithLabelValues(strconv.Itoa(code), resource.Group, resource.Version, resource.Resource).Inc()
}

func (m *Metrics) syncFailed(why string) { m.syncs.WithLabelValues(why).Inc() }
