// Package codec encodes and decodes objects. A Version is a kind in one API version. A Kind has all
// versions of a kind and its stored version. A Record is a stored object at a revision, with cached
// encodings. The package is independent of keys, HTTP and the rules of resources.
package codec

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is an API object with metadata: a pointer to a type of k8s.io/api or
// an *unstructured.Unstructured.
type Object interface {
	runtime.Object
	metav1.Object
}

// Version is one kind in one API version. It is immutable.
type Version struct {
	GVK schema.GroupVersionKind
	// Also are older types with the same fields, which are decoded as objects of this version.
	Also []schema.GroupVersionKind
	// New returns an empty object; its TypeMeta may be empty.
	New func() Object
	// Default sets default values; nil without defaults. It must be idempotent.
	Default func(Object)
	// ToHub and FromHub convert to and from the kind's hub version. They may
	// share memory with their argument, which is not used afterwards. Both
	// are nil for the hub itself.
	ToHub, FromHub func(Object) (Object, error)
	// Accept creates an object from a client's document, for untyped versions. It drops unknown
	// fields, and returns them if report is set. API errors are returned unchanged. nil accepts any
	// document of the right type.
	Accept func(obj Object, report bool) (unknown []error, err error)
	// List is the kind of a collection of v, where that is not the kind with "List"
	// after it.
	List string
	// Untyped means that objects are *unstructured.Unstructured: they have no
	// protobuf form and no strategic merge patch.
	Untyped bool
}

// ErrConverterUnreachable is wrapped by errors of Kind.Convert if it could not connect to the service
// that converts objects.
var ErrConverterUnreachable = errors.New("the converter is unreachable")

// Kind is a kind with all its versions. It is immutable once a record was made.
type Kind struct {
	// Hub is the version in which the server works: rules, admission and the
	// cache see objects in this version.
	Hub *Version
	// Stored is the version written to storage; nil means Hub.
	Stored *Version
	// Versions are all versions of stored objects and clients, including Hub and Stored; nil means
	// Hub only.
	Versions []*Version
	// Fields returns the fields for field selectors, in addition to metadata.name and
	// metadata.namespace; nil without further fields. Its argument has the hub version and must not
	// be modified.
	Fields func(Object) fields.Set
	// StoredAsJSON means that objects are stored as JSON although they have a
	// protobuf form. Clients that accept JSON are then sent the stored bytes.
	StoredAsJSON bool
	// Convert converts objects with a call over the network, many at a time. If it is set, it
	// replaces ToHub and FromHub wherever there is a context. Convert takes ownership of the
	// objects, which may have different versions; stored objects have the defaults of their
	// version. The result has the objects in the same order, in version to. The error wraps
	// ErrConverterUnreachable if the call could not connect.
	Convert func(ctx context.Context, objects []Object, to *Version) ([]Object, error)
	// Memory is the budget for encodings of the kind's records; nil means no limit.
	Memory *Memory
}

func (k *Kind) stored() *Version {
	if k.Stored != nil {
		return k.Stored
	}
	return k.Hub
}

// storesHub reports whether the stored value differs from the hub version only by the protobuf
// envelope and the resourceVersion.
func (k *Kind) storesHub() bool { return !k.Hub.Untyped && k.stored().isHub() }

// Version returns the version of the kind with an API version, or nil.
func (k *Kind) Version(gv schema.GroupVersion) *Version {
	if k.Hub.GVK.GroupVersion() == gv {
		return k.Hub
	}
	for _, v := range k.Versions {
		if v.GVK.GroupVersion() == gv {
			return v
		}
	}
	return nil
}

// ListKind is the kind of a collection of v.
func (v *Version) ListKind() schema.GroupVersionKind {
	if v.List != "" {
		return v.GVK.GroupVersion().WithKind(v.List)
	}
	return v.GVK.GroupVersion().WithKind(v.GVK.Kind + "List")
}

func (v *Version) isHub() bool { return v.FromHub == nil }

// hub converts an object of version v to the hub version and defaults it there.
func (v *Version) hub(obj Object) (Object, error) {
	if v.Default != nil {
		v.Default(obj)
	}
	if v.ToHub == nil {
		return obj, nil
	}
	return v.ToHub(obj)
}

// FromHubTo converts an object of the hub version to v. The argument must not
// be used afterwards.
func (v *Version) FromHubTo(obj Object) (Object, error) {
	if v.FromHub == nil {
		return obj, nil
	}
	return v.FromHub(obj)
}

// ToHubFrom converts a defaulted object of version v to the hub version. The
// argument must not be used afterwards.
func (v *Version) ToHubFrom(obj Object) (Object, error) { return v.hub(obj) }
