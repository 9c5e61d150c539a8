package custom

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
)

// sharedBarrier is the barrier between servers, a decorator of a storage of custom objects that
// other servers also write. The server that deletes a definition deletes its objects, and its
// createBarrier rejects further creations. Another server may not have observed the deletion yet.
// Therefore an object is created in a transaction with the condition that its definition is the one
// that this server knows. Otherwise, the object would remain and reappear with the next definition
// of this name.
type sharedBarrier struct {
	storage.Interface
	handler *handler
}

// maxBarrierAttempts is the maximum number of attempts of a creation whose definition changes: a
// few servers write a few conditions.
const maxBarrierAttempts = 16

// Create implements storage.Interface.
func (b *sharedBarrier) Create(ctx context.Context, obj codec.Object, options storage.WriteOptions) (record *codec.Record, err error) {
	if options.DryRun {
		return b.Interface.Create(ctx, obj, options)
	}
	err = b.retry(ctx, func() error {
		attempt, err := b.with(ctx, obj.GetName(), options)
		if err != nil {
			return err
		}
		record, err = b.Interface.Create(ctx, obj.DeepCopyObject().(codec.Object), attempt)
		return err
	})
	return record, err
}

// Update implements storage.Interface.
func (b *sharedBarrier) Update(ctx context.Context, name types.NamespacedName, update storage.UpdateFunc, options storage.UpdateOptions) (record *codec.Record, err error) {
	barred := func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		obj, write, err := update(current)
		if err != nil || current != nil || write.DryRun || options.DryRun {
			return obj, write, err
		}
		write, err = b.with(ctx, name.Name, write)
		return obj, write, err
	}
	err = b.retry(ctx, func() error {
		record, err = b.Interface.Update(ctx, name, barred, options)
		return err
	})
	return record, err
}

// with adds to the creation of an object the requirement that the definition is as it is
// known here.
func (b *sharedBarrier) with(ctx context.Context, name string, options storage.WriteOptions) (storage.WriteOptions, error) {
	e := b.handler.source.current.Load().named(b.handler.name)
	switch {
	case e == nil || e.uid != b.handler.uid:
		return options, b.gone()
	case e.terminating:
		return options, b.handler.refuseCreate(name)
	}
	op, err := b.handler.source.config.Definitions.Prepare(ctx, storage.OpRequest{
		Unchanged: &storage.Version{Name: types.NamespacedName{Name: e.name}, Revision: e.revision},
	})
	options.With = append(options.With[:len(options.With):len(options.With)], op)
	return options, err
}

// gone returns the error for a definition that was deleted in between.
func (b *sharedBarrier) gone() error {
	return apierrors.NewGenericServerResponse(404, "create", b.handler.group, "", "", 0, true)
}

// retry calls write again while it fails because the definition has changed, which is
// looked at before.
func (b *sharedBarrier) retry(ctx context.Context, write func() error) error {
	for attempt := 1; ; attempt++ {
		err := write()
		var conflict *storage.OpConflictError
		if !errors.As(err, &conflict) || conflict.Name != (types.NamespacedName{Name: b.handler.name}) || attempt == maxBarrierAttempts {
			return err
		}
		switch record, err := b.handler.source.stored(ctx, b.handler.name); {
		case errors.Is(err, storage.ErrNotFound):
			return b.gone()
		case err != nil:
			return err
		default:
			if err := b.handler.source.Observe(record); err != nil {
				return err
			}
		}
	}
}
