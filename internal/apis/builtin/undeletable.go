package builtin

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
)

// undeletable is a store that rejects the deletion of some objects, by name.
type undeletable struct {
	*registry.Store
	// reason returns why an object must not be deleted, "" if it may be.
	reason func(name string) string
}

// Delete implements rest.GracefulDeleter.
func (u undeletable) Delete(ctx context.Context, name types.NamespacedName, validate rest.ValidateObjectFunc, options metav1.DeleteOptions) (*codec.Record, bool, error) {
	if err := u.check(name.Name); err != nil {
		return nil, false, err
	}
	return u.Store.Delete(ctx, name, validate, options)
}

// DeleteCollection implements rest.CollectionDeleter. It ends with an error at the first object
// that must not be deleted.
func (u undeletable) DeleteCollection(ctx context.Context, namespace string, validate rest.ValidateObjectFunc, options metav1.DeleteOptions, list rest.ListOptions) (*rest.List, error) {
	return u.Store.DeleteCollection(ctx, namespace, func(ctx context.Context, obj, old codec.Object) error {
		if err := u.check(old.GetName()); err != nil {
			return err
		}
		if validate == nil {
			return nil
		}
		return validate(ctx, obj, old)
	}, options, list)
}

func (u undeletable) check(name string) error {
	if reason := u.reason(name); reason != "" {
		return apierrors.NewForbidden(u.Resource, name, errors.New(reason))
	}
	return nil
}
