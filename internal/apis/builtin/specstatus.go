package builtin

import (
	"fmt"
	"reflect"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/codec"
)

// specStatus locates the fields Spec and Status of a type, so that the rules of /status are written
// once for all kinds.
type specStatus struct {
	spec, status []int // field indexes; nil if the type has no such field
}

// specStatus returns the fields of the type of the row. It panics if the row has a Status and its
// type does not: the first test of the row detects this programming error.
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

// preserveAllButStatus restores all fields of old except status and metadata.
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

// preserveMetadata returns a function that restores a part of metadata: see
// Status.PreservedMetadata. It panics for an unknown name.
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

// specChanged compares the spec or, for a type without a spec, all fields except metadata and status.
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
