package builtin

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// orphanWarner is a store that sends a warning if a deletion orphans dependents by default.
type orphanWarner struct {
	*registry.Store
	warning string
}

func (w orphanWarner) warn(ctx context.Context, options *metav1.DeleteOptions) {
	if options.PropagationPolicy == nil && options.OrphanDependents == nil {
		request.AddWarning(ctx, w.warning)
	}
}

// Delete implements rest.GracefulDeleter.
func (w orphanWarner) Delete(ctx context.Context, name types.NamespacedName, validate rest.ValidateObjectFunc, options metav1.DeleteOptions) (*codec.Record, bool, error) {
	w.warn(ctx, &options)
	return w.Store.Delete(ctx, name, validate, options)
}

// DeleteCollection implements rest.CollectionDeleter.
func (w orphanWarner) DeleteCollection(ctx context.Context, namespace string, validate rest.ValidateObjectFunc, options metav1.DeleteOptions, list rest.ListOptions) (*rest.List, error) {
	w.warn(ctx, &options)
	return w.Store.DeleteCollection(ctx, namespace, validate, options, list)
}
