package ownership

import (
	"reflect"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// planKind specifies how values are treated.
type planKind uint8

const (
	// planUnsupported values are handled by apimachinery, for example fields that are not in the
	// merge schema.
	planUnsupported planKind = iota
	// planManagedFields values are managed fields, which belong to no set.
	planManagedFields
	// planDocument values are converted to JSON values and compared according to their merge
	// schema.
	planDocument
	planStruct
	planMap  // a Go map
	planList // a Go slice

	// The rest are scalars.
	planText
	planBool
	planInt
	planUint
	planFloat
	planBytes
	planQuantity
	planTime
	planMicroTime
	planIntOrString
	planDuration // a scalar with its own JSON encoding
)

// A plan describes how values of a Go type with a merge schema are treated. It is immutable after
// compilation.
type plan struct {
	kind planKind
	// pointer reports whether values are pointers, which may be nil.
	pointer bool
	// atomic reports whether values are containers that are owned as a whole.
	atomic bool
	// fallible reports whether some values do not conform to the merge schema, or are unsupported.
	fallible bool

	// object reports whether values are whole objects. Most of their fields do not change in a
	// write.
	object bool

	// holdsLossy reports whether values contain lossy parts. ambiguous reports whether two values may differ
	// only in such parts.
	holdsLossy, ambiguous bool

	fields []field // of structs, in order of their names
	elem   *plan   // of maps and slices

	// associative reports whether values are lists whose items are identified by keys or, if there are no
	// keys, by value.
	associative bool
	keys        []keyField
	// keysOptional reports whether an item may omit all keys, which is invalid.
	keysOptional bool

	// ref is the merge schema of a document.
	ref   smd.TypeRef
	entry *value.TypeReflectCacheEntry
}

// A field is a field of a struct in its JSON form.
type field struct {
	name      string
	index     []int
	plan      *plan
	omitEmpty bool                     // omitempty
	omitZero  func(reflect.Value) bool // omitzero, or nil
	managed   bool                     // contains managed fields
}

// of returns the field of a struct, and reports whether JSON omits the field.
func (f *field) of(v reflect.Value) (reflect.Value, bool) {
	if len(f.index) == 1 {
		v = v.Field(f.index[0])
	} else {
		v = v.FieldByIndex(f.index)
	}
	if f.omitEmpty && empty(v) {
		return v, true
	}
	return v, f.omitZero != nil && f.omitZero(v)
}

// A keyField is a key of list items.
type keyField struct {
	name  string
	field *field // nil if the Go type has no such field
	// fallback is the encoded default value; nil means none.
	fallback []byte
}

// empty reports whether omitempty omits a value.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Bool:
		return !v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int() == 0
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return v.Uint() == 0
	case reflect.Float32, reflect.Float64:
		return v.Float() == 0
	case reflect.Pointer, reflect.Interface:
		return v.IsNil()
	}
	return false
}

// deref follows a pointer. null reports whether the JSON value is null.
func (p *plan) deref(v reflect.Value) (_ reflect.Value, null bool) {
	if p.pointer {
		if v.IsNil() {
			return v, true
		}
		v = v.Elem()
	}
	switch p.kind {
	case planMap, planList, planBytes:
		return v, v.IsNil()
	case planTime, planMicroTime:
		return v, isZeroTime(v)
	}
	return v, false
}

// isEmpty reports whether a container is empty or null.
func (p *plan) isEmpty(v reflect.Value, null bool) bool {
	if null {
		return true
	}
	if p.kind != planStruct {
		return v.Len() == 0
	}
	for i := range p.fields {
		if _, omitted := p.fields[i].of(v); !omitted {
			return false
		}
	}
	return true
}
