package controlplane

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/flowcontrol"
	"mainstay.dev/mainstay/internal/storage"
)

// The resources that configure priority and fairness.
var (
	flowSchemas    = flowcontrolv1.SchemeGroupVersion.WithResource("flowschemas").GroupResource()
	priorityLevels = flowcontrolv1.SchemeGroupVersion.WithResource("prioritylevelconfigurations").GroupResource()
)

// queueWaitPart is the part of --request-timeout that a request without a deadline may
// wait for its turn.
const queueWaitPart = 4

// seats are how many requests are executed at a time.
func (o Options) seats() int { return max(o.MaxRequestsInFlight, 0) + max(o.MaxMutatingInFlight, 0) }

func (o Options) checkFlowControl() error {
	if !o.WithoutPriorityAndFairness && o.seats() == 0 {
		return fmt.Errorf("--max-requests-inflight=%d and --max-mutating-requests-inflight=%d must add up to something positive, unless --enable-priority-and-fairness=false",
			max(o.MaxRequestsInFlight, 0), max(o.MaxMutatingInFlight, 0))
	}
	return nil
}

// openFlowControl creates priority and fairness. Rows that are created afterwards report to it.
func (i *instance) openFlowControl() error {
	if i.options.WithoutPriorityAndFairness {
		return nil
	}
	i.flow = flowcontrol.New(flowcontrol.Config{
		Seats:   i.options.seats(),
		Schemas: bootstrap.MandatoryFlowSchemas(), Levels: bootstrap.MandatoryPriorityLevels(),
		Wait:    i.options.RequestTimeout / queueWaitPart,
		Stats:   i.listStats,
		ByCount: !i.options.Gates().Enabled(feature.SizeBasedListCostEstimate),
		Metrics: i.env.Metrics.FlowControl, Reflectors: i.env.Metrics.Reflectors, Logger: i.env.Logger,
	})
	for path, handler := range i.flow.Dumps() {
		i.paths.handle(path, handler)
	}
	return nil
}

// openFlowReflectors creates the reflectors of priority and fairness.
func (i *instance) openFlowReflectors() error {
	if i.flow == nil {
		return nil
	}
	for resource := range i.flow.Resources() {
		stored, err := i.uncached(resource)
		if err != nil {
			return err
		}
		follow, err := i.flow.Reflector(resource, stored)
		if err != nil {
			return err
		}
		i.flowReflectors = append(i.flowReflectors, follow)
	}
	return nil
}

// flowObserver returns the observer of writes of flow schemas and priority levels; nil for other
// resources. Conditions are written after priority and fairness has processed the change.
func (i *instance) flowObserver(resource schema.GroupResource) *storage.Observer {
	var conditions *storage.Observer
	switch resource {
	case flowSchemas:
		conditions = &storage.Observer{Written: func(record *codec.Record) error { i.conditions.Schema(record.Name().Name); return nil }}
	case priorityLevels:
		conditions = &storage.Observer{
			Written: func(record *codec.Record) error { i.conditions.Level(record.Name().Name); return nil },
			Deleted: func(name types.NamespacedName, _ int64) { i.conditions.Level(name.Name) },
		}
	}
	if i.flow == nil {
		return conditions
	}
	return i.flow.Observer(resource).And(conditions)
}

// loadFlowControl reads all schemas and levels.
func (i *instance) loadFlowControl(ctx context.Context) error {
	var group errgroup.Group
	for _, follow := range i.flowReflectors {
		group.Go(func() error { return follow.Load(ctx) })
	}
	return group.Wait()
}

// runFlowControl processes the writes of other servers.
func (i *instance) runFlowControl(ctx context.Context) {
	for _, follow := range i.flowReflectors {
		i.run(ctx, "flow control", &i.flowLoop, func(ctx context.Context) error { follow.Run(ctx); return nil })
	}
}

// uncachedBytes is the assumed size of an object of an uncached resource, in bytes.
const uncachedBytes = 4 << 10

// listStats returns the objects and bytes that a list must read, as far as a cache or the metrics
// contain them.
func (i *instance) listStats(ctx context.Context) (flowcontrol.Stats, bool) {
	r := route.From(ctx)
	if r == nil || r.Resource == nil {
		return flowcontrol.Stats{}, false
	}
	stored, ok := r.Resource.Storage.(interface {
		Cached() (objects, bytes int64, known bool)
	})
	if !ok {
		return flowcontrol.Stats{}, false
	}
	objects, bytes, known := stored.Cached()
	if !known {
		objects, known = i.counts.of(r.Resource.GroupResource())
		return flowcontrol.Stats{Objects: objects, AverageBytes: uncachedBytes}, known
	}
	return flowcontrol.Stats{Objects: objects, AverageBytes: bytes / max(objects, 1)}, known
}

// limits returns the filter that limits concurrent requests.
func (i *instance) limits(onError filters.ErrorWriter) filters.Filter {
	if i.flow == nil {
		return filters.MaxInFlight(i.options.MaxRequestsInFlight, i.options.MaxMutatingInFlight, i.env.Requests, onError)
	}
	return filters.FlowControl(i.flow, i.env.Requests, onError)
}
