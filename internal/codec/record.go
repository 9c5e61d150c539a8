package codec

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// Record is one object at one revision. It is immutable, and shared by the watch cache, lists,
// watches, and the response to the write that created it. It computes encodings, labels and fields
// on first use and caches them; the kind's EncodingCache may evict encodings. Concurrent callers
// share one computation. All methods are safe for concurrent use.
type Record struct {
	name     types.NamespacedName
	revision int64
	kind     *Kind
	// value is the stored encoding; nil for an object that is not stored.
	value []byte
	// conversion holds the value in the hub version; nil if no conversion is needed.
	conversion *conversion
	// exact means that decoding and encoding would reproduce the stored message or document, except for the
	// revision. It is set when this process writes the value; for other values, it is determined on first
	// use.
	exact atomic.Bool
	// revisionAt is the position in the stored value of an untyped object at which the resourceVersion must
	// be inserted to get the object's encoding; 0 if unknown.
	revisionAt atomic.Int32

	// object is the decoded object; nil if it was not decoded or was dropped.
	object atomic.Pointer[decoded]
	// fields caches the result of Kind.Fields. labels caches the labels of the object if they cannot be
	// read from the stored value.
	fields, labels atomic.Pointer[pairs]

	encoding       sync.Mutex // held while encoding, so that concurrent callers do not encode twice
	json, protobuf atomic.Pointer[encoding]

	// owners is the number of caches that contain the record (see Retain). released reports that the last
	// of them has released it. Kind.EncodingCache.mu guards both.
	owners   int32
	released bool
}

// decoded is a decoded object that a record retains.
type decoded struct {
	Object
	// asWritten means that Object was passed to storage. It may differ from the object decoded from the
	// stored value: protobuf does not preserve an empty list. Only encoders and AsWritten may use it,
	// because the difference does not affect them.
	asWritten bool
}

// maxWrittenSize is the maximum size of the stored value, in bytes, up to which a record also
// retains the written object.
const maxWrittenSize = 64 << 10

// NewRecord returns the record of a stored value. The record takes ownership of the value.
func NewRecord(kind *Kind, name types.NamespacedName, value []byte, revision int64) *Record {
	return &Record{name: name, revision: revision, kind: kind, value: value, conversion: kind.newConversion(value)}
}

// RecordOf returns the record of an object in the hub version. It takes ownership of obj and value. value
// is the stored encoding from EncodeStored of the same kind, or nil if the object is not stored. If
// revision is not 0, it becomes the object's resourceVersion. Readers see the object as it is read back
// from storage. For example, an empty list is absent, because protobuf does not preserve it.
func RecordOf(kind *Kind, obj Object, value []byte, revision int64) *Record {
	r := &Record{
		name: cloneName(obj), revision: revision, kind: kind, value: value,
	}
	if value != nil && kind.Hub.Untyped && !kind.stored().isHub() {
		r.conversion = kind.newConversion(value)
		return r // the stored version may lack fields of the object
	}
	asWritten := value != nil && !kind.Hub.Untyped
	r.exact.Store(asWritten && kind.storesHub())
	if asWritten && (len(value) > maxWrittenSize || kind.StoredAsJSON) {
		return r // the stored value is sent without decoding, or is too large to keep twice
	}
	if asWritten {
		obj.SetResourceVersion("")
	}
	setRevision(obj, revision)
	obj.GetObjectKind().SetGroupVersionKind(kind.Hub.GVK)
	r.object.Store(&decoded{obj, asWritten})
	return r
}

// cloneName returns a copy of an object's name, because the original may share memory with a
// complete request body.
func cloneName(obj Object) types.NamespacedName {
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

// Name returns the object's namespace and name.
func (r *Record) Name() types.NamespacedName { return r.name }

// Revision returns the object's resourceVersion, or 0 for an object without a resourceVersion.
func (r *Record) Revision() int64 { return r.revision }

// Kind returns the kind that encodes and decodes the record.
func (r *Record) Kind() *Kind { return r.kind }

// StoredSize returns the length of the stored encoding in bytes, or 0 for an object that is not
// stored.
func (r *Record) StoredSize() int { return len(r.value) }

// Stored returns the stored encoding, which must not be modified, or nil for an object that is not stored.
func (r *Record) Stored() []byte { return r.value }

// Shared returns the object in the hub version. The object is shared and must not be modified. Shared
// returns ErrNotConverted if Convert must be called first, and ErrUndecodable if the stored value is
// invalid.
func (r *Record) Shared() (Object, error) {
	if d := r.object.Load(); d != nil && !d.asWritten {
		return d.Object, nil
	}
	return r.decode()
}

// AsWritten is like Shared, but avoids decoding by returning the object that was passed to storage, if the
// record still has it. Lists that are nil after decoding may be empty lists in this object.
func (r *Record) AsWritten() (Object, error) {
	if d := r.object.Load(); d != nil {
		return d.Object, nil
	}
	return r.Shared()
}

// UID returns the object's UID. It decodes the object only if the UID cannot be read from the stored value;
// it then returns the same errors as Shared.
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

// SharedAs is like Shared for a known Go type. It returns an error if the object has another type.
func SharedAs[T Object](r *Record) (T, error) {
	var none T
	obj, err := r.Shared()
	if err != nil {
		return none, err
	}
	return typed[T](r, obj)
}

// AsWrittenAs is like AsWritten for a known Go type. It returns an error if the object has another
// type.
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

// Cached is like Shared, but the record keeps the decoded object for its lifetime. It is meant for objects
// that are read often and written rarely.
func (r *Record) Cached() (Object, error) {
	if d := r.object.Load(); d != nil && !d.asWritten {
		return d.Object, nil
	}
	obj, err := r.decode()
	if err == nil {
		r.object.Store(&decoded{Object: obj})
	}
	return obj, err
}

// CachedAs is like Cached for a known Go type. It returns an error if the object has another type.
func CachedAs[T Object](r *Record) (T, error) {
	var none T
	obj, err := r.Cached()
	if err != nil {
		return none, err
	}
	return typed[T](r, obj)
}

// Object returns a copy of the object in the hub version. The caller owns it. It returns the same errors as
// Shared.
func (r *Record) Object() (Object, error) {
	if r.value == nil {
		if d := r.object.Load(); d != nil {
			return d.DeepCopyObject().(Object), nil
		}
	}
	return r.decode()
}

// DropDecoded drops the decoded object, to free its memory; it is decoded again on demand. It has
// no effect on an object that is not stored.
func (r *Record) DropDecoded() {
	if r.value != nil {
		r.object.Store(nil)
	}
}

// WithRevision returns a record of the same object with a different revision, for example for the event of
// its deletion. The two records do not share encodings.
func (r *Record) WithRevision(revision int64) *Record {
	copied := &Record{name: r.name, revision: revision, kind: r.kind, value: r.value, conversion: r.conversion}
	copied.exact.Store(r.exact.Load())
	copied.revisionAt.Store(r.revisionAt.Load())
	copied.fields.Store(r.fields.Load())
	copied.labels.Store(r.labels.Load())
	if d := r.object.Load(); r.value == nil && d != nil {
		obj := d.DeepCopyObject().(Object)
		setRevision(obj, revision)
		copied.object.Store(&decoded{Object: obj})
	}
	return copied
}
