package custom

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
)

// conditionalCreates decorates the storage of custom objects if several servers share the store. It creates
// an object in a transaction that fails if the definition has changed since this server observed it. A
// createGate works within one server only: without the condition, a server that has not observed the deletion
// of the definition could create an object after another server has deleted all objects. The object would
// remain, and would reappear with the next definition of this name.
type conditionalCreates struct {
	storage.Interface
	handler *handler
}

// maxCreateAttempts is the maximum number of attempts to create an object while its definition keeps changing.
// The only changes that usually follow each other quickly are the few writes of conditions.
const maxCreateAttempts = 16

// Create implements storage.Interface.
func (c *conditionalCreates) Create(ctx context.Context, obj codec.Object, options storage.WriteOptions) (record *codec.Record, err error) {
	if options.DryRun {
		return c.Interface.Create(ctx, obj, options)
	}
	err = c.retry(ctx, func() error {
		conditional, err := c.addCondition(ctx, obj.GetName(), options)
		if err != nil {
			return err
		}
		// Interface.Create takes ownership of the object, and a retry needs it again.
		record, err = c.Interface.Create(ctx, obj.DeepCopyObject().(codec.Object), conditional)
		return err
	})
	return record, err
}

// Update implements storage.Interface. The condition applies if update creates the object.
func (c *conditionalCreates) Update(ctx context.Context, name types.NamespacedName, update storage.UpdateFunc, options storage.UpdateOptions) (record *codec.Record, err error) {
	conditional := func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		obj, write, err := update(current)
		if err != nil || current != nil || write.DryRun || options.DryRun {
			return obj, write, err
		}
		write, err = c.addCondition(ctx, name.Name, write)
		return obj, write, err
	}
	err = c.retry(ctx, func() error {
		record, err = c.Interface.Update(ctx, name, conditional, options)
		return err
	})
	return record, err
}

// addCondition makes the creation of an object fail unless the definition still has its revision in the current
// snapshot. It returns an error for clients if the definition is terminating or was deleted.
func (c *conditionalCreates) addCondition(ctx context.Context, name string, options storage.WriteOptions) (storage.WriteOptions, error) {
	e := c.handler.source.current.Load().named(c.handler.name)
	switch {
	case e == nil || e.uid != c.handler.uid:
		return options, c.definitionNotFound()
	case e.stored.terminating:
		return options, c.handler.createForbidden(name)
	}
	op, err := c.handler.source.config.Definitions.Prepare(ctx, storage.OpRequest{
		Unchanged: &storage.Version{Name: types.NamespacedName{Name: e.name}, Revision: e.revision},
	})
	if op != nil { // nil for a definition that cannot change
		options.With = append(options.With[:len(options.With):len(options.With)], op)
	}
	return options, err
}

// definitionNotFound returns the error for clients if the definition was deleted during the request.
func (c *conditionalCreates) definitionNotFound() error {
	return apierrors.NewGenericServerResponse(404, "create", c.handler.group, "", "", 0, true)
}

// retry calls write, and calls it again each time it fails because the definition has changed. Before each
// additional call, retry reads the definition and applies it to the snapshot.
func (c *conditionalCreates) retry(ctx context.Context, write func() error) error {
	for attempt := 1; ; attempt++ {
		err := write()
		var conflict *storage.OpConflictError
		if !errors.As(err, &conflict) || conflict.Name != (types.NamespacedName{Name: c.handler.name}) || attempt == maxCreateAttempts {
			return err
		}
		switch record, err := c.handler.source.readRecord(ctx, c.handler.name); {
		case errors.Is(err, storage.ErrNotFound):
			return c.definitionNotFound()
		case err != nil:
			return err
		default:
			if err := c.handler.source.Observe(record); err != nil {
				return err
			}
		}
	}
}
