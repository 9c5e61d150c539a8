package builtin

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
)

// noDependents is a store of objects that never own other objects. It ignores propagation policies.
type noDependents struct{ *registry.Store }

// Delete implements rest.GracefulDeleter.
func (s noDependents) Delete(ctx context.Context, name types.NamespacedName, validate rest.ValidateObjectFunc, options metav1.DeleteOptions) (*codec.Record, bool, error) {
	options.PropagationPolicy, options.OrphanDependents = nil, nil
	return s.Store.Delete(ctx, name, validate, options)
}

// DeleteCollection implements rest.CollectionDeleter.
func (s noDependents) DeleteCollection(ctx context.Context, namespace string, validate rest.ValidateObjectFunc, options metav1.DeleteOptions, list rest.ListOptions) (*rest.List, error) {
	options.PropagationPolicy, options.OrphanDependents = nil, nil
	return s.Store.DeleteCollection(ctx, namespace, validate, options, list)
}
