// Package plugin contains the built-in admission plugins, one per file. The list in package
// controlplane determines their order. Plugins look up objects when they need them, at the newest
// revision, and only for requests that can require them.
package plugin

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/rest"
)

// Getter finds objects by their names.
type Getter[T any] interface {
	// Get returns the newest state of an object, which is shared and must not be
	// changed, or a NotFound API error.
	Get(ctx context.Context, name types.NamespacedName) (T, error)
}

// Lister lists objects.
type Lister[T any] interface {
	// List returns the newest state of the objects of a namespace, or of all where
	// that is empty. They are shared and must not be changed. An error is the last
	// thing returned.
	List(ctx context.Context, namespace string, options rest.ListOptions) iter.Seq2[T, error]
}

// The operations handled by plugins. Each plugin embeds one of these types.
type (
	onCreate         struct{}
	onUpdate         struct{}
	onCreateOrUpdate struct{}
)

// Handles implements admission.Plugin.
func (onCreate) Handles(op admission.Operation) bool { return op == admission.Create }

// Handles implements admission.Plugin.
func (onUpdate) Handles(op admission.Operation) bool { return op == admission.Update }

// Handles implements admission.Plugin.
func (onCreateOrUpdate) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// isFor reports whether a request is for a resource, or for a subresource of it
// where that is not empty, in any version.
func isFor(a *admission.Attributes, group, resource, subresource string) bool {
	r := a.Resource
	return r.Name == resource && r.GroupVersion.Group == group && r.Subresource == subresource
}

// objectOf returns the object of a request for a resource itself, and nil where
// the request is for something else.
func objectOf[T any](a *admission.Attributes, group, resource string) *T {
	if !isFor(a, group, resource, "") {
		return nil
	}
	obj, _ := any(a.Object).(*T)
	return obj
}

// oldOf returns the current object of a request, or nil if it does not exist or has another kind.
func oldOf[T any](a *admission.Attributes) *T {
	obj, _ := any(a.Old).(*T)
	return obj
}

// refuse returns the answer of a plugin that does not let a request pass.
func refuse(a *admission.Attributes, reason error) error { return a.Forbidden(reason) }
