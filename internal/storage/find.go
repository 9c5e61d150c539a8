package storage

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
)

// FindAs returns an object whose Go type is known, in the hub version, for looking at: the
// caller must not change it. It is nil where there is none.
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
