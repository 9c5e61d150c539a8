// Package admission modifies and validates objects before they are stored, with rules that apply to all kinds.
// First, all mutating plugins run in order. Then all validating plugins run on the final object. Attributes
// describe the operation. The package is independent of HTTP and storage.
//
// Package endpoints calls Chain.Mutate before a write, and passes Chain.ValidateFunc to the REST storage, which
// calls it on the final object. The package comment of registry describes the whole sequence.
package admission

import "context"

// Operation is an operation on an object. Its values are those of AdmissionReview.operation.
type Operation string

// The operations for which plugins are called.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Plugin is an admission plugin. It implements Mutator, Validator, or both. It is called
// concurrently for different requests.
type Plugin interface {
	// Name returns the name of the plugin in --enable-admission-plugins.
	Name() string
	// Handles reports whether the plugin is called for an operation. The result must be constant.
	Handles(Operation) bool
}

// Mutator is a plugin that modifies objects. It is called concurrently for different requests.
type Mutator interface {
	// Mutate modifies or replaces a.Object. An error rejects the request; it should be an API
	// error. Mutate may block until ctx ends, and must not retain a.
	Mutate(ctx context.Context, a *Attributes) error
}

// Validator is a plugin that validates objects. It is called concurrently for different requests.
type Validator interface {
	// Validate returns an error to reject the request; it should be an API error. Validate must not modify or
	// retain a.Object or a.Old, and may block until ctx ends.
	Validate(ctx context.Context, a *Attributes) error
}
