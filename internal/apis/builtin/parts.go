package builtin

import (
	"fmt"
	"reflect"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/codec"
)

// parts finds Spec and Status in the type of a row, so that the rules of
// /status are written once for all kinds.
type parts struct {
	spec, status []int // field indexes; nil if the type has no such field
}

func partsOf(t reflect.Type) parts {
	var p parts
	if f, ok := t.FieldByName("Spec"); ok {
		p.spec = f.Index
	}
	if f, ok := t.FieldByName("Status"); ok {
		p.status = f.Index
	}
	return p
}

// check panics if a row requires a field that its type does not have: a programming error, which
// the first test of the row finds.
func (p parts) check(t reflect.Type, status bool) {
	if status && p.status == nil {
		panic(fmt.Sprintf("builtin: %s has no Status", t))
	}
}

func elem(obj any) reflect.Value { return reflect.ValueOf(obj).Elem() }

func (p parts) clearStatus(obj any) { elem(obj).FieldByIndex(p.status).SetZero() }

func (p parts) keepStatus(obj, old any) {
	elem(obj).FieldByIndex(p.status).Set(elem(old).FieldByIndex(p.status))
}

// keepAllButStatus restores everything except the status and metadata.
func (p parts) keepAllButStatus(obj, old any) {
	to, from := elem(obj), elem(old)
	for i := range to.NumField() {
		switch to.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
		default:
			to.Field(i).Set(from.Field(i))
		}
	}
}

// keepMetadata returns a function that restores a part of metadata: see Row.StatusKeeps. Like
// check, it panics for an unknown name.
func keepMetadata(name string) func(obj, old codec.Object) {
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
	panic(fmt.Sprintf("builtin: a write to /status cannot keep %q", name))
}

// specChanged compares Spec, or, in a type without one, all but metadata and
// status.
func (p parts) specChanged(obj, old any) bool {
	to, from := elem(obj), elem(old)
	if p.spec != nil {
		return !validation.Equal(to.FieldByIndex(p.spec).Addr().Interface(), from.FieldByIndex(p.spec).Addr().Interface())
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
