package controlplane

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/custom"
	"mainstay.dev/mainstay/internal/storage/kv"
)

const (
	// countTimeout is the timeout for counting all objects, which reads the keys of custom resources.
	countTimeout = time.Minute
	// firstCountWait is the maximum time that a scrape waits for the first count.
	firstCountWait = time.Second
)

// objectMetrics reports the numbers of stored objects in the open control planes of a host. A scrape returns
// the last counts, and starts a new count in the background if they are older than the interval. Only the first
// scrape waits for a count, for at most firstCountWait. Without scrapes, no objects are counted.
type objectMetrics struct {
	old, byResource *prometheus.Desc
	mu              struct {
		sync.Mutex
		planes map[*objectCounts]struct{}
	}
}

func newObjectMetrics(registerer prometheus.Registerer) (*objectMetrics, error) {
	const help = "Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will be -1."
	m := &objectMetrics{
		old: prometheus.NewDesc("apiserver_storage_objects",
			"[STABLE] (Deprecated since 1.34.0) [DEPRECATED, consider using apiserver_resource_objects instead] "+help, []string{"resource"}, nil),
		byResource: prometheus.NewDesc("apiserver_resource_objects", "[ALPHA] "+help, []string{"group", "resource"}, nil),
	}
	m.mu.planes = map[*objectCounts]struct{}{}
	if err := registerer.Register(m); err != nil {
		return nil, fmt.Errorf("register metrics of objects: %w", err)
	}
	return m, nil
}

// Describe implements prometheus.Collector.
func (m *objectMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.old
	ch <- m.byResource
}

// Collect implements prometheus.Collector.
func (m *objectMetrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	planes := slices.Collect(maps.Keys(m.mu.planes))
	m.mu.Unlock()
	for _, plane := range planes {
		plane.refresh() // so that the first counts of all control planes run at the same time
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstCountWait)
	defer cancel()
	sums := map[schema.GroupResource]int64{}
	for _, plane := range planes {
		for resource, count := range plane.latest(ctx) {
			if sum := sums[resource]; sum < 0 || count < 0 {
				sums[resource] = -1
			} else {
				sums[resource] = sum + count
			}
		}
	}
	for resource, sum := range sums {
		ch <- prometheus.MustNewConstMetric(m.old, prometheus.GaugeValue, float64(sum), resource.String())
		ch <- prometheus.MustNewConstMetric(m.byResource, prometheus.GaugeValue, float64(sum), resource.Group, resource.Resource)
	}
}

// objectCounts counts the objects of one control plane. It is nil if counting is disabled; start, of and wait
// then do nothing.
type objectCounts struct {
	settings    *settings
	builtin     *builtinResources
	definitions *custom.Source

	mu       sync.Mutex
	counts   map[schema.GroupResource]int64 // immutable
	expires  time.Time                      // time at which counts expires
	counting chan struct{}                  // closed at the end of the count in progress; nil if there is none
	lifetime context.Context                // set by start
	closed   bool
}

// newObjectCounts returns nil if counting is disabled.
func newObjectCounts(s *settings, builtin *builtinResources, definitions *custom.Source) *objectCounts {
	if s.options.Storage.ObjectCountInterval < 0 {
		return nil
	}
	return &objectCounts{settings: s, builtin: builtin, definitions: definitions}
}

// start adds the counts to the metrics until ctx ends. The caller must then call wait.
func (c *objectCounts) start(ctx context.Context) {
	if c == nil {
		return
	}
	c.lifetime = ctx
	m := c.settings.env.Telemetry.Metrics.Storage.objects
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.planes[c] = struct{}{}
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.mu.planes, c)
	})
}

// latest returns the last count of each stored and served resource, which is -1 after an error. It starts a
// new count if the last count has expired. It waits for the first count until ctx ends. The map must not be
// modified.
func (c *objectCounts) latest(ctx context.Context) map[schema.GroupResource]int64 {
	counts, counting := c.refresh()
	if counts != nil || counting == nil {
		return counts
	}
	select {
	case <-counting:
	case <-ctx.Done():
	}
	counts, _ = c.refresh()
	return counts
}

// refresh returns the last counts, or nil if there are none, and starts a new count if they have expired.
// counting is closed at the end of the count in progress.
func (c *objectCounts) refresh() (counts map[schema.GroupResource]int64, counting <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counting == nil && !c.closed && !time.Now().Before(c.expires) {
		c.counting = make(chan struct{})
		go c.countAll() // wait waits for this goroutine
	}
	return c.counts, c.counting
}

// of returns the last count of a resource, or false if it is unknown. It starts no count.
func (c *objectCounts) of(resource schema.GroupResource) (int64, bool) {
	if c == nil {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	count, known := c.counts[resource]
	return count, known && count >= 0
}

// wait disables counting and waits for the count in progress, which ends with the context of start.
func (c *objectCounts) wait() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.closed = true
	counting := c.counting
	c.mu.Unlock()
	if counting != nil {
		<-counting
	}
}

// countAll counts the objects of all resources.
func (c *objectCounts) countAll() {
	counts := c.count()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts, c.expires = counts, time.Now().Add(c.settings.options.Storage.ObjectCountInterval)
	close(c.counting)
	c.counting = nil
}

func (c *objectCounts) count() map[schema.GroupResource]int64 {
	ctx, cancel := context.WithTimeout(c.lifetime, countTimeout)
	defer cancel()
	counts := map[schema.GroupResource]int64{}
	record := func(resource schema.GroupResource, count int64, err error) {
		if counts[resource] = count; err != nil {
			counts[resource] = -1
		}
	}
	for resource, count := range c.builtinCounters() {
		n, err := count(ctx)
		record(resource, n, err)
	}
	for _, resource := range c.customResources() {
		n, err := c.countCustom(ctx, resource)
		record(resource, n, err)
	}
	return counts
}

// builtinCounters returns functions that count the objects of built-in resources. If the cache of a resource is
// loaded, its objects are counted in the cache.
func (c *objectCounts) builtinCounters() map[schema.GroupResource]func(context.Context) (int64, error) {
	found := map[schema.GroupResource]func(context.Context) (int64, error){}
	for _, spec := range c.builtin.rows.Specs() {
		if !c.builtin.served.Has(spec.Kind.Hub.GVK.GroupVersion(), spec.Resource.Resource) {
			continue
		}
		found[spec.Resource] = func(ctx context.Context) (int64, error) {
			if store := c.builtin.opened.Opened(spec.Resource); store != nil {
				return store.Storage.Count(ctx)
			}
			uncached, err := c.builtin.uncached(spec.Resource)
			if err != nil {
				return 0, err
			}
			return uncached.Count(ctx)
		}
	}
	return found
}

func (c *objectCounts) customResources() []schema.GroupResource {
	found := map[schema.GroupResource]struct{}{}
	for _, group := range c.definitions.Groups() {
		for _, version := range group.Versions {
			for _, r := range version.Resources {
				if r.Subresource == "" {
					found[r.GroupResource()] = struct{}{}
				}
			}
		}
	}
	return slices.Collect(maps.Keys(found))
}

// countCustom counts the stored keys of a custom resource. It does not use the storage of the
// definition, because that would load the definition into memory.
func (c *objectCounts) countCustom(ctx context.Context, resource schema.GroupResource) (int64, error) {
	prefix := c.settings.keyPrefix() + "/" + resource.Group + "/" + resource.Resource + "/"
	counted, err := c.settings.env.Storage.Backend.Range(ctx, kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix), CountOnly: true})
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", resource, err)
	}
	return counted.Count, nil
}
