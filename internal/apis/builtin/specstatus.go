package builtin

import (
	"fmt"
	"reflect"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/codec"
)

// specStatus locates the fields Spec and Status of a type, so that the /status rules do not have to be
// implemented for each kind.
type specStatus struct {
	spec, status []int // field indexes; nil if the type has no such field
}

// specStatus returns the Spec and Status fields of the row's type. It panics if the row has a Status but the
// type has no such field. The first test that builds the row detects this programming error.
func (r *resource) specStatus() specStatus {
	var s specStatus
	if f, ok := r.goType.FieldByName("Spec"); ok {
		s.spec = f.Index
	}
	if f, ok := r.goType.FieldByName("Status"); ok {
		s.status = f.Index
	} else if r.Status != nil {
		panic(fmt.Sprintf("builtin: %s has no Status", r.goType))
	}
	return s
}

func elem(obj any) reflect.Value { return reflect.ValueOf(obj).Elem() }

func (s specStatus) clearStatus(obj codec.Object) { elem(obj).FieldByIndex(s.status).SetZero() }

func (s specStatus) preserveStatus(obj, old codec.Object) {
	elem(obj).FieldByIndex(s.status).Set(elem(old).FieldByIndex(s.status))
}

// preserveAllButStatus copies all fields except status and metadata from old to obj.
func (s specStatus) preserveAllButStatus(obj, old codec.Object) {
	to, from := elem(obj), elem(old)
	for i := range to.NumField() {
		switch to.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
		default:
			to.Field(i).Set(from.Field(i))
		}
	}
}

// preserveMetadata returns a function that copies a part of the metadata from old to obj. name is an element
// of Status.PreservedMetadata. preserveMetadata panics if the name is unknown.
func preserveMetadata(name string) func(obj, old codec.Object) {
	switch name {
	case "metadata":
		return func(obj, old codec.Object) {
			obj.SetLabels(old.GetLabels())
			obj.SetAnnotations(old.GetAnnotations())
			obj.SetFinalizers(old.GetFinalizers())
			obj.SetOwnerReferences(old.GetOwnerReferences())
		}
	case "metadata.labels":
		return func(obj, old codec.Object) { obj.SetLabels(old.GetLabels()) }
	case "metadata.ownerReferences":
		return func(obj, old codec.Object) { obj.SetOwnerReferences(old.GetOwnerReferences()) }
	}
	panic(fmt.Sprintf("builtin: a write to /status cannot preserve %q", name))
}

// specChanged reports whether the spec changed or, for a type without a spec, any field except metadata and
// status.
func (s specStatus) specChanged(obj, old codec.Object) bool {
	to, from := elem(obj), elem(old)
	if s.spec != nil {
		return !validation.Equal(to.FieldByIndex(s.spec).Addr().Interface(), from.FieldByIndex(s.spec).Addr().Interface())
	}
	for i := range to.NumField() {
		switch to.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
		default:
			if !validation.Equal(to.Field(i).Addr().Interface(), from.Field(i).Addr().Interface()) {
				return true
			}
		}
	}
	return false
}
