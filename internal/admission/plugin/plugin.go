// Package plugin contains the built-in admission plugins of kube-apiserver, one per file. All returns their
// registrations in the order of execution. Plugins read other objects only for requests that require them, and
// always at the newest revision.
package plugin

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/rest"
)

// Getter reads objects by name. It is safe for concurrent use.
type Getter[T any] interface {
	// Get returns the newest state of an object, or a NotFound API error. The result is shared and
	// must not be modified.
	Get(ctx context.Context, name types.NamespacedName) (T, error)
}

// Lister lists objects. It is safe for concurrent use.
type Lister[T any] interface {
	// List iterates over the newest state of the objects in a namespace, or in all namespaces if it is
	// "". The objects are shared and must not be modified. The iteration ends after an error.
	List(ctx context.Context, namespace string, options rest.ListOptions) iter.Seq2[T, error]
}

// These types implement Plugin.Handles. Most plugins embed one of them.
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

// isFor reports whether a request is for a resource in any version. If subresource is not "", it reports
// whether the request is for this subresource of the resource.
func isFor(a *admission.Attributes, group, resource, subresource string) bool {
	r := a.Resource
	return r.Name == resource && r.GroupVersion.Group == group && r.Subresource == subresource
}

// objectOf returns the object of a request for a resource. It returns nil if the request is for another
// resource or for a subresource.
func objectOf[T any](a *admission.Attributes, group, resource string) *T {
	if !isFor(a, group, resource, "") {
		return nil
	}
	obj, _ := any(a.Object).(*T)
	return obj
}

// oldOf returns the current object of a request, or nil if there is none or if it is not a T.
func oldOf[T any](a *admission.Attributes) *T {
	obj, _ := any(a.Old).(*T)
	return obj
}

// reject returns a 403 API error for the request.
func reject(a *admission.Attributes, reason error) error { return a.Forbidden(reason) }
