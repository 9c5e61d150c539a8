// Package admission modifies and validates objects before they are stored, with rules that apply to
// all kinds: first all mutating plugins, in order, then, on the final object, all validating
// plugins. Attributes describe the operation. The package is independent of HTTP and storage.
package admission

import "context"

// Operation is the operation on an object.
type Operation string

// The operations that are admitted.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Plugin is an admission plugin. It implements Mutator, Validator, or both. It is called
// concurrently for different requests.
type Plugin interface {
	// Name is the plugin's name in --enable-admission-plugins.
	Name() string
	// Handles reports whether the plugin processes an operation. It is not called for others. The
	// result must be constant.
	Handles(Operation) bool
}

// Mutator modifies or replaces a.Object. An error rejects the request; it should be an API error.
type Mutator interface {
	Mutate(ctx context.Context, a *Attributes) error
}

// Validator validates objects and must not modify them. An error rejects the request; it should be
// an API error.
type Validator interface {
	Validate(ctx context.Context, a *Attributes) error
}
