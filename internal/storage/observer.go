package storage

import (
	"cmp"
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
)

// Observer is called with each write before the write returns, so that it has processed the write when the
// client receives the response. Its functions may be called concurrently and out of order, even for the same
// object: the write with the greater revision is the newer one.
type Observer struct {
	// Written is called with the stored object. Its error is returned to the writer, although the object
	// was stored. Written must not block on another write. Required.
	Written func(*codec.Record) error
	// Deleted is called with the name of an object and the revision of its deletion; nil ignores
	// deletions.
	Deleted func(name types.NamespacedName, revision int64)
}

// And returns an observer that calls both observers in order. Either may be nil; the result is nil if both
// are nil.
func (o *Observer) And(other *Observer) *Observer {
	if o == nil || other == nil {
		return cmp.Or(o, other)
	}
	both := &Observer{Written: func(record *codec.Record) error { return errors.Join(o.Written(record), other.Written(record)) }}
	if o.Deleted == nil || other.Deleted == nil {
		both.Deleted = o.Deleted
		if both.Deleted == nil {
			both.Deleted = other.Deleted
		}
		return both
	}
	both.Deleted = func(name types.NamespacedName, revision int64) {
		o.Deleted(name, revision)
		other.Deleted(name, revision)
	}
	return both
}

// WithObserver returns a storage that reports all writes except dry runs to an Observer, including updates
// that leave the object unchanged.
func WithObserver(inner Interface, observer *Observer) Interface {
	return observedStorage{inner, observer}
}

type observedStorage struct {
	Interface
	observer *Observer
}

// Create implements Interface.
func (o observedStorage) Create(ctx context.Context, obj codec.Object, options WriteOptions) (*codec.Record, error) {
	record, err := o.Interface.Create(ctx, obj, options)
	if err != nil || options.DryRun || record == nil {
		return record, err
	}
	return record, o.observer.Written(record)
}

// Update implements Interface.
func (o observedStorage) Update(ctx context.Context, name types.NamespacedName, update UpdateFunc, options UpdateOptions) (*codec.Record, error) {
	removed := false
	record, err := o.Interface.Update(ctx, name, func(current *codec.Record) (codec.Object, WriteOptions, error) {
		obj, write, err := update(current)
		removed = errors.As(err, &Remove{})
		return obj, write, err
	}, options)
	switch {
	case err != nil || options.DryRun || record == nil:
		return record, err
	case removed:
		o.deleted(name, record)
		return record, nil
	}
	return record, o.observer.Written(record)
}

// Delete implements Interface.
func (o observedStorage) Delete(ctx context.Context, name types.NamespacedName, validate func(codec.Object) error, options UpdateOptions) (*codec.Record, error) {
	record, err := o.Interface.Delete(ctx, name, validate, options)
	if err == nil && !options.DryRun && record != nil {
		o.deleted(name, record)
	}
	return record, err
}

// DeleteCorrupt implements Interface.
func (o observedStorage) DeleteCorrupt(ctx context.Context, name types.NamespacedName, dryRun bool) (int64, error) {
	revision, err := o.Interface.DeleteCorrupt(ctx, name, dryRun)
	if err == nil && !dryRun && o.observer.Deleted != nil {
		o.observer.Deleted(name, revision)
	}
	return revision, err
}

func (o observedStorage) deleted(name types.NamespacedName, record *codec.Record) {
	if o.observer.Deleted != nil {
		o.observer.Deleted(name, record.Revision())
	}
}
