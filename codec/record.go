package codec

import (
	"strconv"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Record is one object at one revision. It is immutable to those who look at
// it and is shared by everyone who does: the cache, lists, watches and the
// answer to the write that made it. What it was not given it works out on
// first demand and remembers: an encoding is made at most once, whoever asks.
// All methods may be called concurrently.
type Record struct {
	name     types.NamespacedName
	revision int64
	kind     *Kind
	// value is the stored encoding; nil for an object that is not stored.
	value []byte

	// object is a decoded form, present while it is likely to be needed.
	object atomic.Pointer[Object]
	attrs  atomic.Pointer[attributes]

	encodings struct {
		sync.Mutex // held while encoding, so that it happens once
		json       atomic.Pointer[[]byte]
		protobuf   atomic.Pointer[[]byte]
	}
}

// attributes are the parts of an object that selectors look at.
type attributes struct {
	labels labels.Set
	fields fields.Set
}

// NewRecord returns the record of a stored value, which the record keeps.
func NewRecord(kind *Kind, name types.NamespacedName, value []byte, revision int64) *Record {
	return &Record{name: name, revision: revision, kind: kind, value: value}
}

// RecordOf returns the record of an object in the hub version, which must not
// be changed any more; value is its stored encoding, or nil when it is not
// stored. The object's resourceVersion is set to the revision, where that is
// not zero.
//
// What readers see of a stored object is always what can be read back: an empty
// list that protobuf does not keep is gone from the writer's answer already,
// not only after a restart.
func RecordOf(kind *Kind, obj Object, value []byte, revision int64) *Record {
	r := &Record{
		name:     types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()},
		revision: revision, kind: kind, value: value,
	}
	if value != nil && !kind.Hub.Untyped {
		r.attrs.Store(r.attributesOf(obj))
		return r
	}
	setRevision(obj, revision)
	obj.GetObjectKind().SetGroupVersionKind(kind.Hub.GVK)
	r.object.Store(&obj)
	return r
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
	if obj := r.object.Load(); obj != nil {
		return *obj, nil
	}
	return r.kind.DecodeStored(r.value, r.revision)
}

// Object returns a copy of the object in the hub version that is the caller's.
func (r *Record) Object() (Object, error) {
	if r.value == nil {
		if obj := r.object.Load(); obj != nil {
			return (*obj).DeepCopyObject().(Object), nil
		}
	}
	return r.kind.DecodeStored(r.value, r.revision)
}

// Forget drops the decoded object, which is made anew from the stored value
// when somebody asks for it. It does nothing for an object that is not stored.
func (r *Record) Forget() {
	if r.value != nil {
		r.object.Store(nil)
	}
}

// At returns the same object with another revision, as an event of its
// deletion shows it. Selector attributes are shared, encodings are not.
func (r *Record) At(revision int64) *Record {
	moved := &Record{name: r.name, revision: revision, kind: r.kind, value: r.value}
	moved.attrs.Store(r.attrs.Load())
	if r.value == nil {
		if obj := r.object.Load(); obj != nil {
			copied := (*obj).DeepCopyObject().(Object)
			setRevision(copied, revision)
			moved.object.Store(&copied)
		}
	}
	return moved
}

// Labels returns the object's labels, for selectors. The caller must not
// change them.
func (r *Record) Labels() (labels.Set, error) {
	a, err := r.attributes()
	if err != nil {
		return nil, err
	}
	return a.labels, nil
}

// Fields returns what field selectors may look at. The caller must not change
// it.
func (r *Record) Fields() (fields.Set, error) {
	a, err := r.attributes()
	if err != nil {
		return nil, err
	}
	return a.fields, nil
}

func (r *Record) attributes() (*attributes, error) {
	if a := r.attrs.Load(); a != nil {
		return a, nil
	}
	obj, err := r.Shared()
	if err != nil {
		return nil, err
	}
	a := r.attributesOf(obj)
	r.attrs.Store(a)
	return a, nil
}

func (r *Record) attributesOf(obj Object) *attributes {
	a := &attributes{labels: obj.GetLabels()}
	if r.kind.Fields != nil {
		a.fields = r.kind.Fields(obj)
	}
	if a.fields == nil {
		a.fields = make(fields.Set, 2)
	}
	a.fields["metadata.name"] = r.name.Name
	a.fields["metadata.namespace"] = r.name.Namespace
	return a
}

// Matches tells whether the selectors choose the object. A nil selector
// chooses everything.
func (r *Record) Matches(label labels.Selector, field fields.Selector) (bool, error) {
	anyLabel := label == nil || label.Empty()
	anyField := field == nil || field.Empty()
	if anyLabel && anyField {
		return true, nil
	}
	a, err := r.attributes()
	if err != nil {
		return false, err
	}
	return (anyLabel || label.Matches(a.labels)) && (anyField || field.Matches(a.fields)), nil
}
