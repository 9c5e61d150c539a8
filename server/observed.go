package server

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/storage"
)

// observed tells somebody of each object that was written, before whoever wrote
// it is told: what they ask for next is there. A write that tells of a failure
// has taken place all the same.
type observed struct {
	storage.Interface
	// written is told of objects as they are stored now.
	written func(*codec.Record) error
	// removed, where it is set, is told of deletions and their revisions.
	removed func(name string, revision int64)
}

// Create implements storage.Interface.
func (o observed) Create(ctx context.Context, obj codec.Object, options storage.WriteOptions) (*codec.Record, error) {
	record, err := o.Interface.Create(ctx, obj, options)
	if err != nil || options.DryRun || record == nil {
		return record, err
	}
	return record, o.written(record)
}

// Update implements storage.Interface.
func (o observed) Update(ctx context.Context, name types.NamespacedName, update storage.UpdateFunc, options storage.UpdateOptions) (*codec.Record, error) {
	removed := false
	record, err := o.Interface.Update(ctx, name, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		obj, write, err := update(current)
		removed = errors.As(err, &storage.Remove{})
		return obj, write, err
	}, options)
	switch {
	case err != nil || options.DryRun || record == nil:
		return record, err
	case removed:
		o.tellRemoved(name, record)
		return record, nil
	}
	return record, o.written(record)
}

// Delete implements storage.Interface.
func (o observed) Delete(ctx context.Context, name types.NamespacedName, validate func(codec.Object) error, options storage.UpdateOptions) (*codec.Record, error) {
	record, err := o.Interface.Delete(ctx, name, validate, options)
	if err == nil && !options.DryRun && record != nil {
		o.tellRemoved(name, record)
	}
	return record, err
}

func (o observed) tellRemoved(name types.NamespacedName, record *codec.Record) {
	if o.removed != nil {
		o.removed(name.Name, record.Revision())
	}
}
