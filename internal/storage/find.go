package storage

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
)

// FindAs returns an object of a known Go type in the hub version, or nil. The caller must not
// modify it.
func FindAs[T codec.Object](ctx context.Context, in Interface, name types.NamespacedName) (T, error) {
	var none T
	record, err := in.Get(ctx, name, ReadOptions{})
	if errors.Is(err, ErrNotFound) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	return codec.SharedAs[T](record)
}
