package admission

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

var errNoVersion = errors.New("the kind has no such version")

// versions caches the conversions of an object.
type versions struct {
	// source is the object before conversion, and converted contains its conversions.
	source    runtime.Object
	converted []runtime.Object
}

// find returns obj converted to a version, from the cache if possible.
func (v *versions) find(ctx context.Context, r *rest.Resource, obj runtime.Object, gvk schema.GroupVersionKind) (runtime.Object, error) {
	if v.source != obj {
		*v = versions{source: obj}
	}
	for _, made := range v.converted {
		if made.GetObjectKind().GroupVersionKind() == gvk {
			return made, nil
		}
	}
	made, err := Convert(ctx, r, obj, gvk)
	if err != nil {
		return nil, fmt.Errorf("convert %s to %s: %w", r.FullName(), gvk, err)
	}
	v.converted = append(v.converted, made)
	return made, nil
}

// ObjectIn returns the object in the given version of its kind, with the TypeMeta of this version, or nil if
// a.Object is nil. The result may be a.Object. It is shared with other plugins and must not be modified; pass a
// modified copy to SetObjectIn. Conversions are cached until the object changes. ObjectIn returns an error if
// the kind does not have the version or if the conversion fails. A conversion by webhook may block until ctx
// ends.
func (a *Attributes) ObjectIn(ctx context.Context, gvk schema.GroupVersionKind) (runtime.Object, error) {
	if a.Object == nil {
		return nil, nil
	}
	return a.objects.find(ctx, a.Resource, a.Object, gvk)
}

// OldIn is like ObjectIn for the old object. It returns nil if a.Old is nil.
func (a *Attributes) OldIn(ctx context.Context, gvk schema.GroupVersionKind) (runtime.Object, error) {
	if a.Old == nil {
		return nil, nil
	}
	return a.olds.find(ctx, a.Resource, a.Old, gvk)
}

// SetObjectIn converts obj from a version of the same kind to the hub version, applies defaults,
// and replaces a.Object with the result. It takes ownership of obj. If the conversion fails, it
// returns an error and a.Object is unchanged.
func (a *Attributes) SetObjectIn(ctx context.Context, gvk schema.GroupVersionKind, obj codec.Object) error {
	hub, err := toHub(ctx, a.Resource, obj, gvk)
	if err != nil {
		return fmt.Errorf("convert %s to %s: %w", a.Resource.FullName(), gvk, err)
	}
	a.Object = hub
	return nil
}

// Convert converts obj from the hub version of the resource's kind to the version gvk and sets its TypeMeta.
// The result may be obj itself; otherwise it shares no memory with obj. A conversion by webhook may block until
// ctx ends. Convert returns an error if the kind does not have the version or if the conversion fails.
func Convert(ctx context.Context, r *rest.Resource, obj runtime.Object, gvk schema.GroupVersionKind) (runtime.Object, error) {
	hub := hubOf(r)
	if gvk == hub.GVK {
		if obj.GetObjectKind().GroupVersionKind() == gvk {
			return obj, nil
		}
		obj = obj.DeepCopyObject()
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		return obj, nil
	}
	v := versionOf(r, gvk)
	object, ok := obj.(codec.Object)
	if v == nil || !ok {
		return nil, errNoVersion
	}
	out, err := convertTo(ctx, r.Kind, object.DeepCopyObject().(codec.Object), v, v.ConvertFromHub)
	if err != nil {
		return nil, err
	}
	out.GetObjectKind().SetGroupVersionKind(gvk)
	return out, nil
}

// toHub converts obj from the version gvk to the hub version. It takes ownership of obj.
func toHub(ctx context.Context, r *rest.Resource, obj codec.Object, gvk schema.GroupVersionKind) (codec.Object, error) {
	hub, v := hubOf(r), versionOf(r, gvk)
	if v == nil {
		return nil, errNoVersion
	}
	if r.Kind != nil && r.Kind.Convert != nil && v != hub && v.Default != nil {
		v.Default(obj)
	}
	out, err := obj, error(nil)
	if v == hub {
		out, err = v.ConvertToHub(obj)
	} else {
		out, err = convertTo(ctx, r.Kind, obj, hub, v.ConvertToHub)
	}
	if err != nil {
		return nil, err
	}
	out.GetObjectKind().SetGroupVersionKind(hub.GVK)
	return out, nil
}

// convertTo converts an object with kind.Convert, or with the function convert if kind.Convert is nil. It takes
// ownership of obj.
func convertTo(ctx context.Context, kind *codec.Kind, obj codec.Object, to *codec.Version, convert func(codec.Object) (codec.Object, error)) (codec.Object, error) {
	if kind == nil || kind.Convert == nil {
		return convert(obj)
	}
	out, err := kind.Convert(ctx, []codec.Object{obj}, to)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// hubOf returns the hub version of a resource. A kind that is not stored has only one version.
func hubOf(r *rest.Resource) *codec.Version {
	if r.Kind != nil {
		return r.Kind.Hub
	}
	return r.Version
}

// versionOf returns a version of the resource's kind, or nil if the kind does not have it.
func versionOf(r *rest.Resource, gvk schema.GroupVersionKind) *codec.Version {
	v := r.Version
	if r.Kind != nil {
		v = r.Kind.Version(gvk.GroupVersion())
	}
	if v == nil || v.GVK != gvk {
		return nil
	}
	return v
}
