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

// deletionForbidder is a store that rejects the deletion of objects with certain names.
type deletionForbidder struct {
	*registry.Store
	// reason is Deletion.ForbidName.
	reason func(name string) string
}

// Delete implements rest.GracefulDeleter.
func (s deletionForbidder) Delete(ctx context.Context, name types.NamespacedName, validate rest.ValidateObjectFunc, options metav1.DeleteOptions) (*codec.Record, bool, error) {
	if err := s.check(name.Name); err != nil {
		return nil, false, err
	}
	return s.Store.Delete(ctx, name, validate, options)
}

// DeleteCollection implements rest.CollectionDeleter. It stops with an error at the first object that must not
// be deleted.
func (s deletionForbidder) DeleteCollection(ctx context.Context, namespace string, validate rest.ValidateObjectFunc, options metav1.DeleteOptions, list rest.ListOptions) (*rest.List, error) {
	return s.Store.DeleteCollection(ctx, namespace, func(ctx context.Context, obj, old codec.Object) error {
		if err := s.check(old.GetName()); err != nil {
			return err
		}
		if validate == nil {
			return nil
		}
		return validate(ctx, obj, old)
	}, options, list)
}

func (s deletionForbidder) check(name string) error {
	if reason := s.reason(name); reason != "" {
		return apierrors.NewForbidden(s.Resource, name, errors.New(reason))
	}
	return nil
}
