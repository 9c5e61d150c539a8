package local

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/rest"
)

// The errors of writes are those that clients get: apierrors.IsConflict,
// IsAlreadyExists, IsInvalid and so on find them. What is returned is shared and
// must not be changed.

// Create creates an object. It is not the caller's any more.
func (c *Client[T]) Create(ctx context.Context, obj T) (T, error) {
	resource, _, err := find[rest.Creater](c)
	if err != nil {
		var none T
		return none, err
	}
	name := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	return result[T](resource)(c.access.API.Create(c.context(ctx, "create", name), resource, obj, metav1.CreateOptions{FieldManager: c.access.Manager}))
}

// Update replaces an object by what change makes of it. change may be called more
// than once, each time with an object of its own; its error is returned. Where it
// changes nothing, nothing is written.
func (c *Client[T]) Update(ctx context.Context, name types.NamespacedName, change func(T) error) (T, error) {
	resource, _, err := find[rest.Updater](c)
	if err != nil {
		var none T
		return none, err
	}
	changed := func(current codec.Object) (codec.Object, error) {
		obj, ok := current.(T)
		if !ok {
			return nil, fmt.Errorf("update %s %s: it is a %T", c, name, current)
		}
		if err := change(obj); err != nil {
			return nil, err
		}
		return obj, nil
	}
	return result[T](resource)(c.access.API.Update(c.context(ctx, "update", name), resource, changed, metav1.UpdateOptions{FieldManager: c.access.Manager}))
}

// Apply merges a configuration, which has apiVersion, kind and the fields that are
// to be the manager's, into an object, which it creates where there is none
// (KEP-555). force takes fields from other managers.
func (c *Client[T]) Apply(ctx context.Context, configuration *unstructured.Unstructured, force bool) (T, error) {
	resource, _, err := find[rest.Updater](c)
	if err != nil {
		var none T
		return none, err
	}
	name := types.NamespacedName{Namespace: configuration.GetNamespace(), Name: configuration.GetName()}
	return result[T](resource)(c.access.API.Apply(c.context(ctx, "patch", name), resource, configuration,
		metav1.ApplyOptions{FieldManager: c.access.Manager, Force: force}))
}

// Delete deletes an object, or begins to.
func (c *Client[T]) Delete(ctx context.Context, name types.NamespacedName, options metav1.DeleteOptions) error {
	resource, _, err := find[rest.GracefulDeleter](c)
	if err != nil {
		return err
	}
	_, _, err = c.access.API.Delete(c.context(ctx, "delete", name), resource, options)
	return err
}

// DeleteSome returns what deletes single objects of a namespace, or of all where that
// is empty, as one request that deletes the collection. It may be called concurrently;
// gone reports that nothing keeps the object.
func (c *Client[T]) DeleteSome(ctx context.Context, namespace string, options metav1.DeleteOptions) (func(types.NamespacedName) (gone bool, err error), error) {
	resource, _, err := find[rest.GracefulDeleter](c)
	if err != nil {
		return nil, err
	}
	return c.access.API.DeleteSome(c.context(ctx, "deletecollection", types.NamespacedName{Namespace: namespace}), resource, options)
}

// result reads what a write has returned.
func result[T codec.Object](resource *rest.Resource) func(*codec.Record, error) (T, error) {
	return func(record *codec.Record, err error) (T, error) {
		if err != nil || record == nil {
			var none T
			return none, err
		}
		obj, err := record.Shared()
		return typed[T](resource, record, obj, err)
	}
}
