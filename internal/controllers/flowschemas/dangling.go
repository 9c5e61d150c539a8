// Package flowschemas maintains the Dangling condition of FlowSchemas: whether the
// PriorityLevelConfiguration of a schema exists. kube-apiserver's flow control writes it shortly
// after a change; here the write of a schema or level returns after the condition has been
// corrected.
package flowschemas

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
)

// manager is the field manager of kube-apiserver's flow control.
const manager = "api-priority-and-fairness-config-consumer-v1"

// patience bounds how long the writer of an object waits for the conditions.
const patience = 10 * time.Second

// writers is how many conditions are written at a time.
const writers = 16

// Reasons of the condition.
const (
	found    = "Found"
	notFound = "NotFound"
)

// Conditions writes the conditions. It is safe for concurrent use: a condition is written only to
// the version of the schema that it was computed from, and computed again afterwards, so that the
// last of several writers, on several servers too, writes the correct one.
type Conditions struct {
	schemas, statuses *loopback.Client[*flowcontrolv1.FlowSchema]
	levels            *loopback.Client[*flowcontrolv1.PriorityLevelConfiguration]
	lifetime          context.Context
	logger            *slog.Logger
	now               func() time.Time
	started           atomic.Bool
}

// New returns Conditions that write until lifetime ends, once they are started.
func New(lifetime context.Context, access *loopback.Access, logger *slog.Logger) *Conditions {
	access = access.As(nil, manager)
	schemas := loopback.For[*flowcontrolv1.FlowSchema](access, flowcontrolv1.SchemeGroupVersion.WithResource("flowschemas"))
	return &Conditions{
		schemas: schemas, statuses: schemas.Subresource("status"),
		levels:   loopback.For[*flowcontrolv1.PriorityLevelConfiguration](access, flowcontrolv1.SchemeGroupVersion.WithResource("prioritylevelconfigurations")),
		lifetime: lifetime, logger: logger, now: time.Now,
	}
}

// Start sets the conditions of all schemas. Before that no conditions are written, so that the
// objects of a first start are processed once.
func (c *Conditions) Start(ctx context.Context) {
	c.started.Store(true)
	c.each(ctx, func(*flowcontrolv1.FlowSchema) bool { return true })
}

// Schema sets the condition of a schema that was written.
func (c *Conditions) Schema(name string) {
	if !c.started.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(c.lifetime, patience)
	defer cancel()
	c.try(ctx, name)
}

// Level sets the conditions of the schemas that name a level, which was written or
// deleted.
func (c *Conditions) Level(name string) {
	if !c.started.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(c.lifetime, patience)
	defer cancel()
	c.each(ctx, func(schema *flowcontrolv1.FlowSchema) bool {
		return schema.Spec.PriorityLevelConfiguration.Name == name
	})
}

// each sets the conditions of the chosen schemas, some at a time, so that their
// writes share commits.
func (c *Conditions) each(ctx context.Context, chosen func(*flowcontrolv1.FlowSchema) bool) {
	var group errgroup.Group
	group.SetLimit(writers)
	for schema, err := range c.schemas.List(ctx, "", rest.ListOptions{}) {
		if err != nil {
			c.failed(err)
			break
		}
		if chosen(schema) {
			group.Go(func() error { c.try(ctx, schema.Name); return nil })
		}
	}
	_ = group.Wait() // try reports
}

// try sets the condition of a schema. The write that made it wrong has taken place,
// so a failure is no error of its writer's.
func (c *Conditions) try(ctx context.Context, name string) {
	if err := c.set(ctx, types.NamespacedName{Name: name}); err != nil && ctx.Err() == nil {
		c.failed(fmt.Errorf("FlowSchema %s: %w", name, err))
	}
}

func (c *Conditions) failed(err error) {
	c.logger.Warn("the condition of a FlowSchema may not be up to date", "err", err)
}

// set writes the condition of a schema until it is correct, because others may write the schema or
// its level concurrently. It does nothing for a deleted schema.
func (c *Conditions) set(ctx context.Context, name types.NamespacedName) error {
	for {
		schema, err := c.schemas.Get(ctx, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		wanted, err := c.wanted(ctx, schema)
		if err != nil || wanted == nil {
			return err
		}
		if _, err := c.statuses.Apply(ctx, status(schema, wanted), true); err != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
}

// wanted returns the condition to write, or nil if the schema has it.
func (c *Conditions) wanted(ctx context.Context, schema *flowcontrolv1.FlowSchema) (*flowcontrolv1.FlowSchemaCondition, error) {
	level := schema.Spec.PriorityLevelConfiguration.Name
	wanted := &flowcontrolv1.FlowSchemaCondition{
		Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse, LastTransitionTime: metav1.NewTime(c.now()),
		Reason:  found,
		Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", level),
	}
	_, err := c.levels.Get(ctx, types.NamespacedName{Name: level})
	if apierrors.IsNotFound(err) {
		wanted.Status, wanted.Reason = flowcontrolv1.ConditionTrue, notFound
		wanted.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q but there is no such object", level)
	} else if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(schema.Status.Conditions, func(has flowcontrolv1.FlowSchemaCondition) bool { return has.Type == wanted.Type })
	if i < 0 {
		return wanted, nil
	}
	has := &schema.Status.Conditions[i]
	if has.Status == wanted.Status && has.Reason == wanted.Reason && has.Message == wanted.Message {
		return nil, nil
	}
	if has.Status == wanted.Status {
		wanted.LastTransitionTime = has.LastTransitionTime
	}
	return wanted, nil
}

// status returns the status to apply, with the UID and version of the schema.
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
