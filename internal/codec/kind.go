// Package codec encodes and decodes API objects. A Version represents a kind in one API version, and a Kind
// all versions of a kind, including its storage version. A Record is a stored object at one revision, with
// cached encodings. The package does not depend on storage keys, HTTP, or the rules of resources.
package codec

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec/precheck"
)

// Object is an API object with metadata: a pointer to a type of k8s.io/api, or an
// *unstructured.Unstructured.
type Object interface {
	runtime.Object
	metav1.Object
}

// Version is one kind in one API version. It is immutable.
type Version struct {
	GVK schema.GroupVersionKind
	// Aliases are older types with the same fields. They are decoded as objects of this version.
	Aliases []schema.GroupVersionKind
	// New returns an empty object. The TypeMeta of the object may be empty.
	New func() Object
	// Default sets default values; nil means that the version has none. Default must be idempotent.
	Default func(Object)
	// ToHub and FromHub convert to and from the kind's hub version. The result may share memory
	// with the argument, so the caller must not use the argument afterwards. Both are nil for the
	// hub version itself.
	ToHub, FromHub func(Object) (Object, error)
	// Accept checks a decoded client object of an untyped version and removes the object's unknown fields.
	// If report is set, it also returns an error for each of these fields. If err is an API error, it is
	// sent to the client unchanged. A nil Accept allows every object of the right type.
	Accept func(obj Object, report bool) (unknown []error, err error)
	// UnknownFields returns the paths, such as spec.containers[0].image, of the fields that are set in an
	// object and exist in its Go type, but not in this version. It must not modify the object. nil means
	// that the version has all fields of the type.
	UnknownFields func(Object) []string
	// List is the kind of lists of v; empty means the kind followed by "List".
	List string
	// Untyped means that objects are *unstructured.Unstructured. They have no protobuf encoding and
	// no strategic merge patch.
	Untyped bool

	charge precheck.Charge // see WithCharge
}

// ErrConverterUnreachable is wrapped by errors of Kind.Convert if the connection to the conversion
// service failed.
var ErrConverterUnreachable = errors.New("the converter is unreachable")

// Kind describes an API kind with all its versions. It must not be modified after the first record has been
// created. From then on, its methods are safe for concurrent use.
type Kind struct {
	// Hub is the version in which the server processes objects. Validation, admission and the watch cache
	// use it.
	Hub *Version
	// Stored is the version written to storage; nil means Hub.
	Stored *Version
	// Versions contains all versions in which objects may be stored or served, including Hub and Stored;
	// nil means Hub only.
	Versions []*Version
	// Fields returns the fields for field selectors, except metadata.name and metadata.namespace, which all
	// kinds have; nil means that there are no other fields. The argument has the hub version and must not
	// be modified. The names of the fields must not share memory with an object, because records retain them.
	Fields func(Object) fields.Set
	// StoredAsJSON means that objects are stored as JSON although they have a protobuf encoding.
	// Clients that accept JSON then receive the stored bytes.
	StoredAsJSON bool
	// Convert converts objects with a network call, many at a time; nil means that ToHub and FromHub are
	// used. If Convert is set, it replaces them in all operations that have a context. Convert takes
	// ownership of the objects, which may have different versions; stored objects have the defaults of
	// their version. It returns the objects in the same order, in version to. The error wraps
	// ErrConverterUnreachable if the connection failed.
	Convert func(ctx context.Context, objects []Object, to *Version) ([]Object, error)
	// EncodingCache is the budget for encodings of the kind's records; nil means no limit.
	EncodingCache *EncodingCache
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

// Version returns the version of the kind with the given API version, or nil.
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

// ListKind returns the kind of a list of objects of version v.
func (v *Version) ListKind() schema.GroupVersionKind {
	if v.List != "" {
		return v.GVK.GroupVersion().WithKind(v.List)
	}
	return v.GVK.GroupVersion().WithKind(v.GVK.Kind + "List")
}

// UnknownFieldErrors returns a strict decoding error for each path that UnknownFields returns.
func (v *Version) UnknownFieldErrors(obj Object) []error {
	if v.UnknownFields == nil {
		return nil
	}
	var errs []error
	for _, path := range v.UnknownFields(obj) {
		errs = append(errs, fmt.Errorf("unknown field %q", path))
	}
	return errs
}

func (v *Version) isHub() bool { return v.FromHub == nil }

// toHub sets the defaults of an object of version v, and converts it to the hub version.
func (v *Version) toHub(obj Object) (Object, error) {
	if v.Default != nil {
		v.Default(obj)
	}
	if v.ToHub == nil {
		return obj, nil
	}
	return v.ToHub(obj)
}

// ConvertFromHub converts an object of the hub version to v. It does not call Kind.Convert. The
// caller must not use the argument afterwards. It returns the error of FromHub.
func (v *Version) ConvertFromHub(obj Object) (Object, error) {
	if v.FromHub == nil {
		return obj, nil
	}
	return v.FromHub(obj)
}

// ConvertToHub sets the defaults of an object of version v and converts it to the hub version. It
// does not call Kind.Convert. The caller must not use the argument afterwards. It returns the error
// of ToHub.
func (v *Version) ConvertToHub(obj Object) (Object, error) { return v.toHub(obj) }
