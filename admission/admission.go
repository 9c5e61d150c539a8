// Package admission changes and checks objects on their way into storage, by
// rules that are not of one kind: first every plugin that mutates, in order,
// then, on the final object, every plugin that validates. It is told what is
// to happen by Attributes and knows neither HTTP nor storage.
//
// Imports: codec, request, rest.
package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/rest"
)

// Operation is what is to happen to an object.
type Operation string

// The operations that are admitted.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Attributes describe a write.
type Attributes struct {
	Operation   Operation
	Resource    schema.GroupVersionResource
	Subresource string
	Kind        schema.GroupVersionKind
	Namespace   string
	// Name may be empty on creation, when it is generated.
	Name string
	// Object is the new object in the hub version, nil for deletions. Mutating
	// plugins may change it.
	Object codec.Object
	// Old is the current object, nil for creations. It must not be changed.
	Old    codec.Object
	DryRun bool
	User   *request.User
}

// Plugin takes part in admission. It implements Mutator, Validator, or both.
type Plugin interface {
	// Name is the plugin's name in --enable-admission-plugins.
	Name() string
}

// Mutator changes objects. An error refuses the write; it should be an API
// error.
type Mutator interface {
	Mutate(ctx context.Context, a *Attributes) error
}

// Validator checks objects and must not change them. An error refuses the
// write; it should be an API error.
type Validator interface {
	Validate(ctx context.Context, a *Attributes) error
}

// Chain is a list of plugins in order of execution. It is immutable.
type Chain []Plugin

// Mutate lets every mutating plugin change the object.
func (c Chain) Mutate(ctx context.Context, a *Attributes) error {
	for _, plugin := range c {
		if m, ok := plugin.(Mutator); ok {
			if err := m.Mutate(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// Validate lets every validating plugin check the object.
func (c Chain) Validate(ctx context.Context, a *Attributes) error {
	for _, plugin := range c {
		if v, ok := plugin.(Validator); ok {
			if err := v.Validate(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// Validation returns the check that REST storage calls with the final object.
func (c Chain) Validation(a Attributes) rest.ValidateObject {
	return func(ctx context.Context, obj, old codec.Object) error {
		final := a
		final.Object, final.Old = obj, old
		if obj != nil {
			final.Name = obj.GetName()
		}
		return c.Validate(ctx, &final)
	}
}
