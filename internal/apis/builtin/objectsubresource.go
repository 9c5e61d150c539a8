package builtin

import (
	"context"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
)

// ObjectSubresource declares a subresource that reads and writes a part of the main object, with its own
// rules. O is a pointer to the type of the object.
type ObjectSubresource[O codec.Object] struct {
	Name string
	// PrepareForUpdate restores everything outside of the subresource's part from old, so that only this part
	// is written.
	PrepareForUpdate func(op *Operation, obj, old O)
	// Validate validates the updated object. nil accepts all objects.
	Validate func(f validation.Field, obj, old O)
	// WriteOnly disables reads.
	WriteOnly bool
	// ResetFields contains the dotted paths of fields that the subresource does not write.
	ResetFields []string
}

// NewObjectSubresource creates a Subresource from its declaration. The subresource uses the finalizers,
// generation rule and scope of the row.
func NewObjectSubresource[O codec.Object](sub ObjectSubresource[O]) Subresource {
	return Subresource{Name: sub.Name, ResetFields: sub.ResetFields, Storage: func(env *Env, store *registry.Store) rest.Storage {
		main := store.Strategy
		part := &registry.SubresourceStore{Store: store, Subresource: sub.Name, Strategy: &registry.Strategy{
			Namespaced: main.Namespaced, Generation: main.Generation, SpecChanged: main.SpecChanged, BlocksRemoval: main.BlocksRemoval,
			PrepareForUpdate: func(ctx context.Context, obj, old codec.Object) {
				sub.PrepareForUpdate(&Operation{Context: ctx, Env: env}, typed[O](obj), typed[O](old))
				env.built.lacking[store.Kind].Drop(obj, old)
			},
			ValidateUpdate: validateUpdate(env, eraseRules(sub.Validate)),
		}}
		if sub.WriteOnly {
			return struct{ rest.Updater }{part}
		}
		return part
	}}
}
