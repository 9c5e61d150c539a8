package recent

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Registry is a prometheus.Registry of all metrics of a server. It also adds the collectors that a Recorder
// needs to a second registry, which the Recorder gathers periodically. Other collectors, for example those that
// count objects, may be too expensive to gather periodically. A Registry is safe for concurrent use.
type Registry struct {
	*prometheus.Registry
	recorded *prometheus.Registry
	needed   map[string]bool // names of metrics
}

// NewRegistry returns a registry that adds collectors to all. all must already contain the metrics of the
// Go runtime and the process. Other collectors that all already contains are not recorded.
func NewRegistry(all *prometheus.Registry) *Registry {
	r := &Registry{Registry: all, recorded: prometheus.NewRegistry(), needed: map[string]bool{}}
	for _, rule := range rules() {
		r.needed[rule.metric] = true
	}
	r.recorded.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Recorded returns the registry of the collectors that a Recorder needs, for use with New.
func (r *Registry) Recorded() prometheus.Gatherer { return r.recorded }

// Register implements prometheus.Registerer.
func (r *Registry) Register(c prometheus.Collector) error {
	if err := r.Registry.Register(c); err != nil || !r.needs(c) {
		return err
	}
	return r.recorded.Register(c)
}

// MustRegister implements prometheus.Registerer.
func (r *Registry) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister implements prometheus.Registerer.
func (r *Registry) Unregister(c prometheus.Collector) bool {
	r.recorded.Unregister(c)
	return r.Registry.Unregister(c)
}

// needs reports whether a collector has a needed metric.
func (r *Registry) needs(c prometheus.Collector) (needed bool) {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		c.Describe(descriptions)
	}()
	for d := range descriptions {
		needed = needed || r.needed[nameOf(d)]
	}
	return needed
}

// nameOf returns the name of a metric. prometheus.Desc has no accessor for it.
func nameOf(d *prometheus.Desc) string {
	_, rest, _ := strings.Cut(d.String(), `fqName: "`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}
