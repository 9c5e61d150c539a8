package storage

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
)

// FindAs returns the newest state of an object as T, which must be the Go type of the hub version. It returns
// a nil T if the object does not exist. The object is shared and must not be modified. FindAs returns the
// errors of in.Get except ErrNotFound, and an error if the object cannot be decoded or has another type.
func FindAs[T codec.Object](ctx context.Context, in Interface, name types.NamespacedName) (T, error) {
	var zero T
	record, err := in.Get(ctx, name, ReadOptions{})
	if errors.Is(err, ErrNotFound) {
		return zero, nil
	}
	if err != nil {
		return zero, err
	}
	return codec.SharedAs[T](record)
}
