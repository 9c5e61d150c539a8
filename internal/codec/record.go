package codec

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// Record is one object at one revision. It is immutable, and shared by the watch
// cache, lists, watches and the response to the write that made it. It makes
// encodings, labels and fields on first use and caches them; encodings as far as
// its kind's Memory has room. Concurrent calls make an encoding once. All methods
// may be called concurrently.
type Record struct {
	name     types.NamespacedName
	revision int64
	kind     *Kind
	// value is the stored encoding; nil for an object that is not stored.
	value []byte
	// conversion is the conversion of the value; nil if it needs none.
	conversion *conversion
	// exact: decoding and encoding would reproduce the stored message or document, apart from the
	// revision. It is set for values written by this process, and computed for others.
	exact atomic.Bool
	// revisionAt is the position of the resourceVersion in the stored value of an untyped object,
	// at which an insertion gives the object's encoding; 0 if unknown.
	revisionAt atomic.Int32

	// object is a decoded form, present while it is likely to be needed.
	object atomic.Pointer[decoded]
	// fields are the cached fields of Kind.Fields for selectors; labels are the cached labels of
	// the object, if the stored value cannot be searched.
	fields, labels atomic.Pointer[pairs]

	encoding       sync.Mutex // held while encoding, so that it happens once
	json, protobuf atomic.Pointer[encoding]

	// owners is the number of caches that contain the record (Retain), and released reports that
	// the last of them released it. Kind.Memory.mu guards both.
	owners   int32
	released bool
}

// decoded is a decoded object that a record retains.
type decoded struct {
	Object
	// asWritten: the object was passed to storage and may differ from the decoded value (an empty
	// list is preserved). Only encoders and callers of AsWritten may use it, for which the
	// difference is irrelevant.
	asWritten bool
}

// maxWritten is the maximum size of a stored value whose record also retains the written object, in
// bytes.
const maxWritten = 64 << 10

// NewRecord returns the record of a stored value and takes ownership of it.
func NewRecord(kind *Kind, name types.NamespacedName, value []byte, revision int64) *Record {
	return &Record{name: name, revision: revision, kind: kind, value: value, conversion: kind.newConversion(value)}
}

// RecordOf returns the record of an object in the hub version, which must not be modified
// afterwards. value is its stored encoding, created by EncodeStored of the same kind, or nil if it
// is not stored. If revision is not zero, the object's resourceVersion is set to it. Readers see
// the value that can be read back: an empty list that protobuf does not preserve is absent from the
// response of the write, not only after a restart.
func RecordOf(kind *Kind, obj Object, value []byte, revision int64) *Record {
	r := &Record{
		name: nameOf(obj), revision: revision, kind: kind, value: value,
	}
	if value != nil && kind.Hub.Untyped && !kind.stored().isHub() {
		r.conversion = kind.newConversion(value)
		return r // the stored version may not know all that is in the object
	}
	asWritten := value != nil && !kind.Hub.Untyped
	r.exact.Store(asWritten && kind.storesHub())
	if asWritten && (len(value) > maxWritten || kind.StoredAsJSON) {
		return r // its encodings are near enough
	}
	if asWritten {
		obj.SetResourceVersion("")
	}
	setRevision(obj, revision)
	obj.GetObjectKind().SetGroupVersionKind(kind.Hub.GVK)
	r.object.Store(&decoded{obj, asWritten})
	return r
}

// nameOf returns a copy of an object's name: the object's own may be part of the
// text of a whole request.
func nameOf(obj Object) types.NamespacedName {
	namespace := obj.GetNamespace()
	both := namespace + obj.GetName()
	if len(both) == len(namespace) || namespace == "" {
		both = strings.Clone(both)
	}
	return types.NamespacedName{Namespace: both[:len(namespace)], Name: both[len(namespace):]}
}

func setRevision(obj Object, revision int64) {
	if revision != 0 {
		obj.SetResourceVersion(strconv.FormatInt(revision, 10))
	}
}

// Name returns the object's name and namespace.
func (r *Record) Name() types.NamespacedName { return r.name }

// Revision returns the object's resourceVersion.
func (r *Record) Revision() int64 { return r.revision }

// Kind returns how the object is read and written.
func (r *Record) Kind() *Kind { return r.kind }

// StoredSize returns the length of the stored encoding in bytes, 0 for an
// object that is not stored.
func (r *Record) StoredSize() int { return len(r.value) }

// Stored returns the stored encoding, nil for an object that is not stored.
// The caller must not change it.
func (r *Record) Stored() []byte { return r.value }

// Shared returns the object in the hub version for looking at. The caller must
// not change it.
func (r *Record) Shared() (Object, error) {
	if d := r.object.Load(); d != nil && !d.asWritten {
		return d.Object, nil
	}
	return r.decode()
}

// AsWritten is like Shared for callers that treat empty and absent lists alike. It avoids decoding
// if the object passed to storage is still available.
func (r *Record) AsWritten() (Object, error) {
	if d := r.object.Load(); d != nil {
		return d.Object, nil
	}
	return r.Shared()
}

// UID returns the object's uid: from the stored value where it can be found in it.
func (r *Record) UID() (types.UID, error) {
	if uid, ok := storedUIDOf(r.value); ok {
		return types.UID(uid), nil
	}
	obj, err := r.AsWritten()
	if err != nil {
		return "", err
	}
	return obj.GetUID(), nil
}

// SharedAs is like Shared for a known Go type. It returns an error for another type.
func SharedAs[T Object](r *Record) (T, error) {
	var none T
	obj, err := r.Shared()
	if err != nil {
		return none, err
	}
	return typed[T](r, obj)
}

// AsWrittenAs is like AsWritten for a known Go type.
func AsWrittenAs[T Object](r *Record) (T, error) {
	var none T
	obj, err := r.AsWritten()
	if err != nil {
		return none, err
	}
	return typed[T](r, obj)
}

func typed[T Object](r *Record, obj Object) (T, error) {
	typed, ok := obj.(T)
	if !ok {
		return typed, fmt.Errorf("%s is a %T", r.Name(), obj)
	}
	return typed, nil
}

// Kept is like Shared for objects that are read often and rarely written: the record retains the
// decoded object for its lifetime.
func (r *Record) Kept() (Object, error) {
	if d := r.object.Load(); d != nil && !d.asWritten {
		return d.Object, nil
	}
	obj, err := r.decode()
	if err == nil {
		r.object.Store(&decoded{Object: obj})
	}
	return obj, err
}

// Object returns a copy of the object in the hub version that is the caller's.
func (r *Record) Object() (Object, error) {
	if r.value == nil {
		if d := r.object.Load(); d != nil {
			return d.DeepCopyObject().(Object), nil
		}
	}
	return r.decode()
}

// Forget drops the decoded object, which is decoded again on demand. It has no effect on an object
// that is not stored.
func (r *Record) Forget() {
	if r.value != nil {
		r.object.Store(nil)
	}
}

// At returns the same object with another revision, as an event of its
// deletion shows it. Encodings are not shared.
func (r *Record) At(revision int64) *Record {
	moved := &Record{name: r.name, revision: revision, kind: r.kind, value: r.value, conversion: r.conversion}
	moved.exact.Store(r.exact.Load())
	moved.revisionAt.Store(r.revisionAt.Load())
	moved.fields.Store(r.fields.Load())
	moved.labels.Store(r.labels.Load())
	if d := r.object.Load(); r.value == nil && d != nil {
		copied := d.DeepCopyObject().(Object)
		setRevision(copied, revision)
		moved.object.Store(&decoded{Object: copied})
	}
	return moved
}
