package controlplane

import (
	"context"
	"errors"
	"net/http"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers/flowschemas"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/flowcontrol"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// The resources that configure priority and fairness.
var (
	flowSchemas    = flowcontrolv1.SchemeGroupVersion.WithResource("flowschemas").GroupResource()
	priorityLevels = flowcontrolv1.SchemeGroupVersion.WithResource("prioritylevelconfigurations").GroupResource()
)

// queueWaitDivisor limits the time for which a request without a deadline waits in a queue. The
// maximum is --request-timeout divided by queueWaitDivisor.
const queueWaitDivisor = 4

// flowControl implements priority and fairness for a control plane.
type flowControl struct {
	control *flowcontrol.Control // nil with --enable-priority-and-fairness=false
	// reflectors follow the flow schemas and priority levels for control.
	reflectors reflectors
	// conditions writes the conditions of flow schemas, even if control is nil.
	conditions *flowschemas.Conditions
}

// newFlowControl creates priority and fairness. Initially, it uses only the mandatory flow schemas
// and priority levels.
func newFlowControl(s *settings, r *resources, counts *objectCounts) (*flowControl, error) {
	f := &flowControl{}
	schemas, err := r.builtin.uncached(flowSchemas)
	if err != nil {
		return nil, err
	}
	levels, err := r.builtin.uncached(priorityLevels)
	if err != nil {
		return nil, err
	}
	f.conditions = flowschemas.New(s.lifetime, r.access, flowschemas.Stored{Schemas: schemas, Levels: levels}, s.env.Telemetry.Logger)
	if !s.options.Requests.DisablePriorityAndFairness {
		f.control = flowcontrol.New(flowcontrol.Config{
			Seats:   s.options.Requests.seats(),
			Schemas: bootstrap.MandatoryFlowSchemas(), Levels: bootstrap.MandatoryPriorityLevels(),
			MaxWait: s.options.Requests.Timeout / queueWaitDivisor,
			Stats:   func(ctx context.Context) (flowcontrol.Stats, bool) { return listStats(ctx, counts) },
			ByCount: !s.gates.Enabled(feature.SizeBasedListCostEstimate),
			Metrics: s.env.Telemetry.Metrics.Flow, Reflectors: s.reflectorMetrics(), Logger: s.env.Telemetry.Logger,
		})
		for resource, stored := range map[schema.GroupResource]reflector.Collection{flowSchemas: schemas, priorityLevels: levels} {
			follower, err := f.control.Reflector(resource, stored)
			if err != nil {
				return nil, err
			}
			f.reflectors = append(f.reflectors, follower)
		}
	}
	return f, f.observe(r.builtin.storage.observers)
}

// observe adds the observers for the writes of this server. Conditions are written after control
// has processed the change.
func (f *flowControl) observe(o *observers) error {
	schemaConditions := &storage.Observer{
		Written: func(record *codec.Record) error { f.conditions.SyncSchema(record.Name().Name); return nil },
	}
	levelConditions := &storage.Observer{
		Written: func(record *codec.Record) error { f.conditions.SyncLevel(record.Name().Name); return nil },
		Deleted: func(name types.NamespacedName, _ int64) { f.conditions.SyncLevel(name.Name) },
	}
	if f.control != nil {
		schemaConditions = f.control.Observer(flowSchemas).And(schemaConditions)
		levelConditions = f.control.Observer(priorityLevels).And(levelConditions)
	}
	return errors.Join(o.addWritten(flowSchemas, schemaConditions), o.addWritten(priorityLevels, levelConditions))
}

// dumps returns the debug handlers by path, or nil if priority and fairness is disabled.
func (f *flowControl) dumps() map[string]http.Handler {
	if f.control == nil {
		return nil
	}
	return f.control.Dumps()
}

// filter returns the filter that limits concurrent requests.
func (f *flowControl) filter(s *settings, onError filters.ErrorWriter) filters.Filter {
	if f.control == nil {
		return filters.MaxInFlight(s.options.Requests.MaxInFlight, s.options.Requests.MaxMutatingInFlight, s.env.Telemetry.Requests, onError)
	}
	return filters.FlowControl(f.control, s.env.Telemetry.Requests, onError)
}

// close stops the goroutines of priority and fairness.
func (f *flowControl) close() {
	if f.control != nil {
		f.control.Close()
	}
}

// uncachedBytes is the assumed size of an object of an uncached resource, in bytes.
const uncachedBytes = 4 << 10

// listStats returns the number and the total size of the objects that a list reads. The second
// result is false if neither a cache nor the last object count provides these numbers.
func listStats(ctx context.Context, counts *objectCounts) (flowcontrol.Stats, bool) {
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
		objects, known = counts.of(r.Resource.GroupResource())
		return flowcontrol.Stats{Objects: objects, AverageBytes: uncachedBytes}, known
	}
	return flowcontrol.Stats{Objects: objects, AverageBytes: bytes / max(objects, 1)}, known
}
