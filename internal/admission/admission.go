// Package admission changes and checks objects on their way into storage, by
// rules that are not of one kind: first every plugin that mutates, in order,
// then, on the final object, every plugin that validates. What is to happen is
// described by Attributes; it knows neither HTTP nor storage.
package admission

import "context"

// Operation is what is to happen to an object.
type Operation string

// The operations that are admitted.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Plugin takes part in admission. It implements Mutator, Validator, or both. It
// may be called concurrently, for different requests.
type Plugin interface {
	// Name is the plugin's name in --enable-admission-plugins.
	Name() string
	// Handles reports whether the plugin has a say in an operation. It is not
	// called for others. The answer must not change.
	Handles(Operation) bool
}

// Mutator changes objects: it writes to a.Object, or replaces it. An error
// refuses the request; it should be an API error.
type Mutator interface {
	Mutate(ctx context.Context, a *Attributes) error
}

// Validator checks objects and must not change them. An error refuses the
// request; it should be an API error.
type Validator interface {
	Validate(ctx context.Context, a *Attributes) error
}
