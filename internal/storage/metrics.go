package storage

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Metrics are the metrics of all Stores of a server, under kube-apiserver's names. A nil *Metrics
// records nothing. It is safe for concurrent use.
type Metrics struct {
	lists, evaluated, fetched, returned *prometheus.CounterVec
}

// NewMetrics creates the metrics of Stores and registers them. It fails if they are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"group", "resource"})
	}
	m := &Metrics{
		lists:     counter("apiserver_storage_list_total", "[ALPHA] Number of LIST requests served from storage"),
		fetched:   counter("apiserver_storage_list_fetched_objects_total", "[ALPHA] Number of objects read from storage in the course of serving a LIST request"),
		evaluated: counter("apiserver_storage_list_evaluated_objects_total", "[ALPHA] Number of objects tested in the course of serving a LIST request from storage"),
		returned:  counter("apiserver_storage_list_returned_objects_total", "[ALPHA] Number of objects returned for a LIST request from storage"),
	}
	for _, c := range []prometheus.Collector{m.lists, m.fetched, m.evaluated, m.returned} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register storage metrics: %w", err)
		}
	}
	return m, nil
}

func (m *Metrics) listed(resource schema.GroupResource, fetched, evaluated, returned int64) {
	if m == nil {
		return
	}
	m.lists.WithLabelValues(resource.Group, resource.Resource).Inc()
	m.fetched.WithLabelValues(resource.Group, resource.Resource).Add(float64(fetched))
	m.evaluated.WithLabelValues(resource.Group, resource.Resource).Add(float64(evaluated))
	m.returned.WithLabelValues(resource.Group, resource.Resource).Add(float64(returned))
}

// Forget removes the series of a deleted resource. m may be nil.
func (m *Metrics) Forget(resource schema.GroupResource) {
	if m == nil {
		return
	}
	for _, vec := range []*prometheus.CounterVec{m.lists, m.evaluated, m.fetched, m.returned} {
		vec.DeleteLabelValues(resource.Group, resource.Resource)
	}
}
