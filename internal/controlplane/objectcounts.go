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

	"mainstay.dev/mainstay/internal/storage/kv"
)

const (
	// countTimeout bounds how long objects are counted: the keys of some resources may be many.
	countTimeout = time.Minute
	// firstCountWait is how long a scrape waits for the first count.
	firstCountWait = time.Second
)

// objectMetrics are how many objects the open control planes of a host store. A scrape of
// metrics reads what was counted last, and has them counted anew in the background if that
// was an interval ago: only the first scrape waits, for a short time, and a server that nobody
// looks at counts nothing.
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
	sums := map[schema.GroupResource]int64{}
	for _, plane := range planes {
		for resource, count := range plane.latest() {
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

// count has the objects of a control plane counted until ctx ends. The counts must be waited
// for then. nil: they are not wanted.
func (m *objectMetrics) count(ctx context.Context, i *instance) *objectCounts {
	if i.options.ObjectCountInterval < 0 {
		return nil
	}
	counts := &objectCounts{instance: i, ctx: ctx}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.planes[counts] = struct{}{}
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.mu.planes, counts)
	})
	return counts
}

// objectCounts are those of one control plane.
type objectCounts struct {
	instance *instance
	ctx      context.Context // of the control plane

	mu    sync.Mutex
	known map[schema.GroupResource]int64 // is replaced, not changed
	until time.Time                      // known is good
	// counting is closed when the count under way is done; nil: none is.
	counting chan struct{}
	closed   bool
}

// latest returns how many objects there were of each resource that is stored and served when
// they were last counted, -1 where that could not be found out. They are counted anew if that
// was some time ago. The map must not be changed.
func (c *objectCounts) latest() map[schema.GroupResource]int64 {
	known, counting := c.refresh()
	if known != nil || counting == nil {
		return known
	}
	select {
	case <-counting:
	case <-time.After(firstCountWait):
	}
	known, _ = c.refresh()
	return known
}

// refresh returns the last count, nil where there is none, and begins another one if it is
// old; counting is closed when the one under way is done.
func (c *objectCounts) refresh() (known map[schema.GroupResource]int64, counting <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counting == nil && !c.closed && !time.Now().Before(c.until) {
		c.counting = make(chan struct{})
		go c.countAll() // wait waits for it
	}
	return c.known, c.counting
}

// of returns how many objects of a resource there were when they were last counted; false where
// that is not known. It has nothing counted.
func (c *objectCounts) of(resource schema.GroupResource) (int64, bool) {
	if c == nil {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	count, known := c.known[resource]
	return count, known && count >= 0
}

// wait has nothing counted any more, and waits for the count under way, which ends with the
// lifetime of the control plane.
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
	known := c.count()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.until = known, time.Now().Add(c.instance.options.ObjectCountInterval)
	close(c.counting)
	c.counting = nil
}

func (c *objectCounts) count() map[schema.GroupResource]int64 {
	ctx, cancel := context.WithTimeout(c.ctx, countTimeout)
	defer cancel()
	known := map[schema.GroupResource]int64{}
	note := func(resource schema.GroupResource, count int64, err error) {
		if known[resource] = count; err != nil {
			known[resource] = -1
		}
	}
	for resource, count := range c.builtin() {
		n, err := count(ctx)
		note(resource, n, err)
	}
	for _, resource := range c.custom() {
		n, err := c.countCustom(ctx, resource)
		note(resource, n, err)
	}
	return known
}

// builtin returns what counts the objects of built-in resources, from their caches where
// those are loaded.
func (c *objectCounts) builtin() map[schema.GroupResource]func(context.Context) (int64, error) {
	rows := c.instance.rows
	found := map[schema.GroupResource]func(context.Context) (int64, error){}
	for _, spec := range rows.Specs() {
		store := rows.Store(spec.Resource)
		if store != nil && c.instance.served.Find(spec.Kind.Hub.GVK.GroupVersion(), spec.Resource.Resource, "") != nil {
			found[spec.Resource] = store.Storage.Count
		}
	}
	return found
}

// custom returns the custom resources.
func (c *objectCounts) custom() []schema.GroupResource {
	found := map[schema.GroupResource]struct{}{}
	for _, group := range c.instance.custom.Groups() {
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

// countCustom counts what is stored: to open the storage of a definition for that would
// keep it in memory.
func (c *objectCounts) countCustom(ctx context.Context, resource schema.GroupResource) (int64, error) {
	prefix := c.instance.keyPrefix() + "/" + resource.Group + "/" + resource.Resource + "/"
	counted, err := c.instance.env.Backend.Range(ctx, kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix), CountOnly: true})
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", resource, err)
	}
	return counted.Count, nil
}
