package loopback

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// Writes return the errors of the API, so apierrors.IsConflict, IsAlreadyExists, IsInvalid and so on can be
// used. Returned objects are shared and must not be modified. If ctx ends during a write, the write may
// continue for stopGrace. A stopped controller therefore ends between two writes, and still receives the result
// of its last write.

// stopGrace is the maximum time for which a write continues after its context has ended.
const stopGrace = 5 * time.Second

// uninterrupted returns a context for one write that ends stopGrace after ctx ends. If ctx has already ended,
// it returns the error of ctx. The caller must call done after the write.
func uninterrupted(ctx context.Context) (write context.Context, done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	write, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var timer *time.Timer
	stopped := make(chan struct{})
	unregister := context.AfterFunc(ctx, func() {
		timer = time.AfterFunc(stopGrace, cancel)
		close(stopped)
	})
	return write, func() {
		if !unregister() {
			<-stopped
			timer.Stop()
		}
		cancel()
	}, nil
}

// Create creates an object and returns the stored object. The caller must not use obj afterwards. If the object
// already exists, the error is an API error with reason AlreadyExists.
func (c *Client[T]) Create(ctx context.Context, obj T) (T, error) {
	resource, _, err := find[rest.Creater](c)
	if err != nil {
		var none T
		return none, err
	}
	ctx, done, err := uninterrupted(ctx)
	if err != nil {
		var none T
		return none, err
	}
	defer done()
	name := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	return result[T](resource)(c.access.API.Create(c.context(ctx, "create", name), resource, obj, metav1.CreateOptions{FieldManager: c.access.Manager}))
}

// Update replaces an object. It calls change with a copy of the current object, writes the modified copy, and
// returns the stored object. change may be called several times, each time with a new copy of the current
// object. If change returns an error, Update returns this error. If change modifies nothing, nothing is
// written. If the object does not exist, the error is an API error with reason NotFound.
func (c *Client[T]) Update(ctx context.Context, name types.NamespacedName, change func(T) error) (T, error) {
	resource, _, err := find[rest.Updater](c)
	if err != nil {
		var none T
		return none, err
	}
	ctx, done, err := uninterrupted(ctx)
	if err != nil {
		var none T
		return none, err
	}
	defer done()
	changed := func(current codec.Object) (codec.Object, error) {
		obj, ok := current.(T)
		if !ok {
			return nil, fmt.Errorf("update %s %s: unexpected type %T", c, name, current)
		}
		if err := change(obj); err != nil {
			return nil, err
		}
		return obj, nil
	}
	return result[T](resource)(c.access.API.Update(c.context(ctx, "update", name), resource, changed, metav1.UpdateOptions{FieldManager: c.access.Manager}))
}

// Apply performs a server-side apply (KEP-555). configuration contains the apiVersion, the kind, the name and
// the fields that the manager sets. If the object does not exist, Apply creates it. If force is true, Apply
// takes over fields that other managers own; otherwise, a conflict with another manager results in an API error
// with reason Conflict.
func (c *Client[T]) Apply(ctx context.Context, configuration *unstructured.Unstructured, force bool) (T, error) {
	resource, _, err := find[rest.Updater](c)
	if err != nil {
		var none T
		return none, err
	}
	ctx, done, err := uninterrupted(ctx)
	if err != nil {
		var none T
		return none, err
	}
	defer done()
	name := types.NamespacedName{Namespace: configuration.GetNamespace(), Name: configuration.GetName()}
	return result[T](resource)(c.access.API.Apply(c.context(ctx, "patch", name), resource, configuration,
		metav1.ApplyOptions{FieldManager: c.access.Manager, Force: force}))
}

// Delete deletes an object. An object with finalizers or a grace period still exists when Delete returns. If
// the object does not exist, the error is an API error with reason NotFound.
func (c *Client[T]) Delete(ctx context.Context, name types.NamespacedName, options metav1.DeleteOptions) error {
	resource, _, err := find[rest.GracefulDeleter](c)
	if err != nil {
		return err
	}
	ctx, done, err := uninterrupted(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, _, err = c.access.API.Delete(c.context(ctx, "delete", name), resource, options)
	return err
}

// NewDeleter returns a function that deletes one object per call, as part of a single deletion of a collection.
// The collection consists of the objects in a namespace, or in all namespaces if namespace is empty. The
// returned function is safe for concurrent use; gone reports whether the object no longer exists. NewDeleter
// returns an error if the resource is not served or cannot be deleted.
func (c *Client[T]) NewDeleter(ctx context.Context, namespace string, options metav1.DeleteOptions) (func(types.NamespacedName) (gone bool, err error), error) {
	resource, _, err := find[rest.GracefulDeleter](c)
	if err != nil {
		return nil, err
	}
	ctx = c.context(ctx, "deletecollection", types.NamespacedName{Namespace: namespace})
	remove, err := c.access.API.NewDeleter(ctx, resource, options)
	if err != nil {
		return nil, err
	}
	return func(name types.NamespacedName) (bool, error) {
		ctx, done, err := uninterrupted(ctx)
		if err != nil {
			return false, err
		}
		defer done()
		return remove(ctx, name)
	}, nil
}

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
