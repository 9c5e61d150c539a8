package loopback

import (
	"context"
	"fmt"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// Get returns the newest state of an object, which is shared and must not be
// changed. A missing one is an API error (apierrors.IsNotFound).
func (c *Client[T]) Get(ctx context.Context, name types.NamespacedName) (T, error) {
	resource, storage, err := find[rest.Getter](c)
	if err != nil {
		var none T
		return none, err
	}
	record, err := storage.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		var none T
		return none, err
	}
	return c.read(resource, record)
}

// List returns the selected objects of a namespace, or of all where that is empty.
// They are shared and must not be changed. An error is the last thing returned.
func (c *Client[T]) List(ctx context.Context, namespace string, options rest.ListOptions) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		resource, storage, err := find[rest.Lister](c)
		if err != nil {
			yield(none, err)
			return
		}
		list, err := storage.List(ctx, namespace, options)
		if err != nil {
			yield(none, err)
			return
		}
		for record, err := range list.Items {
			if err != nil {
				yield(none, err)
				return
			}
			if obj, err := c.read(resource, record); !yield(obj, err) || err != nil {
				return
			}
		}
	}
}

// Collection is the input of a reflector.
type Collection interface {
	rest.Lister
	rest.Watcher
}

// Collection returns the resource's collection, to be followed by a reflector.
func (c *Client[T]) Collection() (Collection, error) {
	_, storage, err := find[Collection](c)
	return storage, err
}

// read returns the object of a record in the version of a resource.
func (c *Client[T]) read(resource *rest.Resource, record *codec.Record) (T, error) {
	if c.keeps {
		obj, err := record.Cached()
		return typed[T](resource, record, obj, err)
	}
	obj, err := record.Shared()
	return typed[T](resource, record, obj, err)
}

// typed returns the decoded object of a record in the version of a resource.
func typed[T codec.Object](resource *rest.Resource, record *codec.Record, obj codec.Object, err error) (T, error) {
	var none T
	if err != nil {
		return none, fmt.Errorf("read %s %s: %w", resource.FullName(), record.Name(), err)
	}
	if v := resource.Version; v.FromHub != nil {
		if obj, err = v.ConvertFromHub(obj.DeepCopyObject().(codec.Object)); err != nil {
			return none, fmt.Errorf("convert %s %s: %w", resource.FullName(), record.Name(), err)
		}
	}
	typed, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("read %s %s: it is a %T", resource.FullName(), record.Name(), obj)
	}
	return typed, nil
}
