package builtin

import (
	"context"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
)

// Part declares a subresource through which a part of the same object is read
// and written, by rules of its own.
type Part[T any] struct {
	Name string
	// Prepare copies the other parts of old to obj, so that only the part is written.
	Prepare func(op *Operation, obj, old *T)
	// Validate validates the result; may be nil.
	Validate func(f validation.Field, obj, old *T)
	// WriteOnly withholds reading.
	WriteOnly bool
	// ResetFields are the dotted paths of fields that are not written.
	ResetFields []string
}

// PartSubresource creates a subresource from a Part. It uses the finalizers, generation rule and
// scope of the row.
func PartSubresource[T any, P object[T]](part Part[T]) Subresource {
	return Subresource{Name: part.Name, ResetFields: part.ResetFields, Storage: func(env *Env, store *registry.Store) rest.Storage {
		main := store.Strategy
		written := &registry.Part{Store: store, Subresource: part.Name, Strategy: &registry.Strategy{
			Namespaced: main.Namespaced, Generation: main.Generation, SpecChanged: main.SpecChanged, BlocksRemoval: main.BlocksRemoval,
			PrepareForUpdate: func(ctx context.Context, obj, old codec.Object) {
				part.Prepare(&Operation{Context: ctx, Env: env}, typed[T, P](obj), typed[T, P](old))
			},
			ValidateUpdate: validateUpdate(env, rulesOf[T, P](part.Validate)),
		}}
		if part.WriteOnly {
			return struct{ rest.Updater }{written}
		}
		return written
	}}
}
