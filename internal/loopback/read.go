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

// Get returns the current state of an object. The returned object is shared and must not be modified. If the
// object does not exist, the error is an API error with reason NotFound.
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

// List iterates over the objects in a namespace that options selects, or over those in all namespaces if
// namespace is empty. The objects are shared and must not be modified. The iteration ends after the first
// error.
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

// Collection is the storage of a resource that a reflector can list and watch.
type Collection interface {
	rest.Lister
	rest.Watcher
}

// Collection returns the storage of the resource for a reflector. It returns an error if the
// resource is not served, or cannot be listed and watched.
func (c *Client[T]) Collection() (Collection, error) {
	_, storage, err := find[Collection](c)
	return storage, err
}

// read decodes a record and converts it to the version of the resource.
func (c *Client[T]) read(resource *rest.Resource, record *codec.Record) (T, error) {
	if c.cached {
		obj, err := record.Cached()
		return typed[T](resource, record, obj, err)
	}
	obj, err := record.Shared()
	return typed[T](resource, record, obj, err)
}

// typed converts obj, a decoded object in the hub version, to the version of the resource. err is the error of
// the decoding; if it is not nil, typed adds the name of the object to it and returns it.
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
		return none, fmt.Errorf("read %s %s: unexpected type %T", resource.FullName(), record.Name(), obj)
	}
	return typed, nil
}
