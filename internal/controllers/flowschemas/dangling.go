// Package flowschemas maintains the Dangling condition of FlowSchemas. The condition is true if the
// PriorityLevelConfiguration that a schema references does not exist. kube-apiserver updates the condition
// asynchronously. In this server, a write of a schema or level returns after the condition has been updated.
package flowschemas

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
)

// fieldManager is the field manager that kube-apiserver's flow control uses.
const fieldManager = "api-priority-and-fairness-config-consumer-v1"

// maxWait is the maximum time for which a write of a schema or level waits until the conditions are updated.
const maxWait = 10 * time.Second

const maxConcurrentWrites = 16

// maxWrites is the maximum number of writes of a schema's condition while updates of the schema are in progress.
// Usually one or two writes are sufficient. An admission policy that removes the condition from each write would
// otherwise cause endless writes, which are also nested because each write of a schema calls SyncSchema.
const maxWrites = 64

// retryDelay is the delay before a failed update is repeated.
const retryDelay = time.Minute

// The reasons of the condition.
const (
	reasonFound    = "Found"
	reasonNotFound = "NotFound"
)

// Conditions updates the Dangling conditions. It is safe for concurrent use. Several servers may update the
// same conditions: a condition is written only if the schema has not changed since the condition was computed,
// and it is computed again after the write.
type Conditions struct {
	schemas, statuses *loopback.Client[*flowcontrolv1.FlowSchema]
	levels            *loopback.Client[*flowcontrolv1.PriorityLevelConfiguration]
	stored            Stored
	lifetime          context.Context
	logger            *slog.Logger
	now               func() time.Time
	started           atomic.Bool

	mu sync.Mutex
	// retries contains the scheduled retries by the updated object. Guarded by mu.
	retries map[string]bool
	// running contains the updates in progress by the name of the schema. Guarded by mu.
	running map[string]*updates
}

// updates are the concurrent and nested updates of one schema.
type updates struct{ running, writes int }

// Stored reads all schemas and levels from the store. Start uses it instead of the API, because reads through
// the API would fill a watch cache for each of the two resources.
type Stored struct{ Schemas, Levels rest.Lister }

// New returns Conditions that do nothing until Start or Enable is called. lifetime limits the updates that
// SyncSchema and SyncLevel perform.
func New(lifetime context.Context, access *loopback.Access, stored Stored, logger *slog.Logger) *Conditions {
	access = access.As(nil, fieldManager)
	schemas := loopback.For[*flowcontrolv1.FlowSchema](access, flowcontrolv1.SchemeGroupVersion.WithResource("flowschemas"))
	return &Conditions{
		schemas: schemas, statuses: schemas.Subresource("status"),
		levels:   loopback.For[*flowcontrolv1.PriorityLevelConfiguration](access, flowcontrolv1.SchemeGroupVersion.WithResource("prioritylevelconfigurations")),
		stored:   stored,
		lifetime: lifetime, logger: logger, now: time.Now, retries: map[string]bool{}, running: map[string]*updates{},
	}
}

// Enable enables SyncSchema and SyncLevel. The server calls it after it has created the initial objects, so
// that the conditions are not updated after each of these writes.
func (c *Conditions) Enable() { c.started.Store(true) }

// Start calls Enable, and updates the conditions of all schemas. It blocks until the conditions are stored or
// ctx ends. It logs errors, and repeats a failed update later.
func (c *Conditions) Start(ctx context.Context) {
	c.Enable()
	outdated, err := c.outdated(ctx)
	if err != nil {
		c.logFailure(err)
		c.retryLater("all schemas", func() { c.Start(c.lifetime) })
	}
	c.syncEach(ctx, slices.Values(outdated))
}

// outdated returns the names of the schemas whose condition is missing or wrong.
func (c *Conditions) outdated(ctx context.Context) ([]string, error) {
	levels := map[string]bool{}
	for level, err := range recordsOf(ctx, c.stored.Levels) {
		if err != nil {
			return nil, err
		}
		levels[level.Name().Name] = true
	}
	var names []string
	for record, err := range recordsOf(ctx, c.stored.Schemas) {
		if err != nil {
			return names, err
		}
		schema, err := codec.SharedAs[*flowcontrolv1.FlowSchema](record)
		if err != nil {
			return names, err
		}
		if c.desired(schema, levels[schema.Spec.PriorityLevelConfiguration.Name]) != nil {
			names = append(names, schema.Name)
		}
	}
	return names, nil
}

// recordsOf iterates over all objects of a collection.
func recordsOf(ctx context.Context, collection rest.Lister) iter.Seq2[*codec.Record, error] {
	list, err := collection.List(ctx, "", rest.ListOptions{})
	if err != nil {
		return func(yield func(*codec.Record, error) bool) { yield(nil, err) }
	}
	return list.Items
}

// SyncSchema updates the condition of a schema after the schema was written. It blocks until the condition is
// stored, but at most for maxWait. It logs errors, and repeats a failed update later.
func (c *Conditions) SyncSchema(name string) {
	if !c.started.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(c.lifetime, maxWait)
	defer cancel()
	c.syncOne(ctx, name)
}

// SyncLevel updates the conditions of the schemas that reference a level, after the level was written or
// deleted. It blocks until the conditions are stored, but at most for maxWait. It logs errors, and repeats a
// failed update later.
func (c *Conditions) SyncLevel(name string) {
	if !c.started.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(c.lifetime, maxWait)
	defer cancel()
	c.syncEach(ctx, c.schemasOf(ctx, name))
}

// schemasOf iterates over the names of the schemas that reference a level.
func (c *Conditions) schemasOf(ctx context.Context, level string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for schema, err := range c.schemas.List(ctx, "", rest.ListOptions{}) {
			if err != nil {
				c.logFailure(err)
				c.retryLater("level "+level, func() { c.SyncLevel(level) })
				return
			}
			if schema.Spec.PriorityLevelConfiguration.Name == level && !yield(schema.Name) {
				return
			}
		}
	}
}

// syncEach updates the conditions of several schemas concurrently, so that the writes share commits.
func (c *Conditions) syncEach(ctx context.Context, names iter.Seq[string]) {
	var group errgroup.Group
	group.SetLimit(maxConcurrentWrites)
	for name := range names {
		group.Go(func() error { c.syncOne(ctx, name); return nil })
	}
	_ = group.Wait() // syncOne logs errors
}

// syncOne updates the condition of a schema. It logs errors and schedules a retry, because the write that made
// the update necessary has already succeeded.
func (c *Conditions) syncOne(ctx context.Context, name string) {
	err := c.set(ctx, types.NamespacedName{Name: name})
	if err == nil {
		return
	}
	if ctx.Err() == nil {
		c.logFailure(fmt.Errorf("FlowSchema %s: %w", name, err))
	}
	c.retryLater("schema "+name, func() { c.SyncSchema(name) })
}

// retryLater calls update after retryDelay, unless a retry for the key is scheduled or the lifetime has ended.
func (c *Conditions) retryLater(key string, update func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retries[key] || c.lifetime.Err() != nil {
		return
	}
	c.retries[key] = true
	clock := simulation.From(c.lifetime)
	clock.AfterFunc(clock.Now().Add(retryDelay), func() {
		c.mu.Lock()
		delete(c.retries, key)
		c.mu.Unlock()
		if c.lifetime.Err() == nil {
			update()
		}
	})
}

func (c *Conditions) logFailure(err error) {
	c.logger.Warn("update the Dangling condition of a FlowSchema", "err", err)
}

// errReverted is returned if the condition is not correct after maxWrites writes.
var errReverted = errors.New("the condition is not correct after many writes; an admission policy or webhook may revert it")

// begin records the start of an update of a schema. write counts a write, and reports whether it is permitted.
// The caller must call end after the update.
func (c *Conditions) begin(schema string) (write func() bool, end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.running[schema]
	if u == nil {
		u = &updates{}
		c.running[schema] = u
	}
	u.running++
	write = func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		u.writes++
		return u.writes <= maxWrites
	}
	end = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if u.running--; u.running == 0 {
			delete(c.running, schema)
		}
	}
	return write, end
}

// set updates the condition of a schema. The schema or its level may change concurrently, so set repeats the
// update until the condition is correct, but returns errReverted after maxWrites writes. It does nothing if the
// schema was deleted.
func (c *Conditions) set(ctx context.Context, name types.NamespacedName) error {
	write, end := c.begin(name.Name)
	defer end()
	for {
		schema, err := c.schemas.Get(ctx, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = c.levels.Get(ctx, types.NamespacedName{Name: schema.Spec.PriorityLevelConfiguration.Name})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		desired := c.desired(schema, err == nil)
		if desired == nil {
			return nil
		}
		if !write() {
			return errReverted
		}
		if _, err := c.statuses.Apply(ctx, status(schema, desired), true); err != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
}

// desired returns the condition to write, or nil if the schema already has it. exists specifies whether the
// level of the schema exists.
func (c *Conditions) desired(schema *flowcontrolv1.FlowSchema, exists bool) *flowcontrolv1.FlowSchemaCondition {
	level := schema.Spec.PriorityLevelConfiguration.Name
	desired := &flowcontrolv1.FlowSchemaCondition{
		Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse, LastTransitionTime: metav1.NewTime(c.now()),
		Reason:  reasonFound,
		Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", level),
	}
	if !exists {
		desired.Status, desired.Reason = flowcontrolv1.ConditionTrue, reasonNotFound
		desired.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q but there is no such object", level)
	}
	i := slices.IndexFunc(schema.Status.Conditions, func(has flowcontrolv1.FlowSchemaCondition) bool { return has.Type == desired.Type })
	if i < 0 {
		return desired
	}
	has := &schema.Status.Conditions[i]
	if has.Status == desired.Status && has.Reason == desired.Reason && has.Message == desired.Message {
		return nil
	}
	if has.Status == desired.Status {
		desired.LastTransitionTime = has.LastTransitionTime
	}
	return desired
}

// status returns the apply configuration that sets the condition. The UID and the resourceVersion of the schema
// are preconditions.
func status(schema *flowcontrolv1.FlowSchema, condition *flowcontrolv1.FlowSchemaCondition) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": flowcontrolv1.SchemeGroupVersion.String(), "kind": "FlowSchema",
		"metadata": map[string]any{"name": schema.Name, "uid": string(schema.UID), "resourceVersion": schema.ResourceVersion},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": string(condition.Type), "status": string(condition.Status), "reason": condition.Reason, "message": condition.Message,
			"lastTransitionTime": condition.LastTransitionTime.UTC().Format(time.RFC3339),
		}}},
	}}
}
