package ownership

import (
	"bytes"
	"reflect"
)

// same reports whether two values have equal JSON according to the rules of structured-merge-diff, which
// compares lists by their Go values.
func (p *plan) same(l, r reflect.Value) bool {
	l, lNull := p.deref(l)
	r, rNull := p.deref(r)
	if lNull || rNull {
		return lNull == rNull
	}
	return p.sameValue(l, r)
}

// sameValue is like same, for dereferenced values that are not null.
func (p *plan) sameValue(l, r reflect.Value) bool {
	switch p.kind {
	case planStruct:
		for i := range p.fields {
			f := &p.fields[i]
			lv, lOmitted := f.of(l)
			rv, rOmitted := f.of(r)
			if lOmitted != rOmitted || !lOmitted && !f.plan.same(lv, rv) {
				return false
			}
		}
		return true
	case planMap:
		if l.Len() != r.Len() {
			return false
		}
		for entries := l.MapRange(); entries.Next(); {
			other := r.MapIndex(entries.Key())
			if !other.IsValid() || !p.elem.same(entries.Value(), other) {
				return false
			}
		}
		return true
	case planList:
		return identical(l, r)
	case planDocument:
		x, err := p.document(l)
		y, err2 := p.document(r)
		return err == nil && err2 == nil && sameDocument(x, y)
	case planUnsupported, planManagedFields:
		return false
	}
	return p.sameScalar(l, r)
}

// identical is like reflect.DeepEqual, for values without cycles.
func identical(l, r reflect.Value) bool {
	switch l.Kind() {
	case reflect.Slice:
		if l.IsNil() != r.IsNil() || l.Len() != r.Len() {
			return false
		}
		if l.Len() == 0 || l.UnsafePointer() == r.UnsafePointer() {
			return true
		}
		if l.Type().Elem().Kind() == reflect.Uint8 {
			return bytes.Equal(l.Bytes(), r.Bytes())
		}
		for i := range l.Len() {
			if !identical(l.Index(i), r.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Pointer:
		if l.UnsafePointer() == r.UnsafePointer() {
			return true
		}
		return !l.IsNil() && !r.IsNil() && identical(l.Elem(), r.Elem())
	case reflect.Struct:
		for i := range l.NumField() {
			if !identical(l.Field(i), r.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		return identicalMaps(l, r)
	case reflect.Interface:
		if l.IsNil() || r.IsNil() {
			return l.IsNil() == r.IsNil()
		}
		return l.Elem().Type() == r.Elem().Type() && identical(l.Elem(), r.Elem())
	case reflect.Array:
		for i := range l.Len() {
			if !identical(l.Index(i), r.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Func:
		return l.IsNil() && r.IsNil()
	}
	return l.Equal(r)
}

func identicalMaps(l, r reflect.Value) bool {
	if l.IsNil() != r.IsNil() || l.Len() != r.Len() {
		return false
	}
	if l.UnsafePointer() == r.UnsafePointer() {
		return true
	}
	for entries := l.MapRange(); entries.Next(); {
		other := r.MapIndex(entries.Key())
		if !other.IsValid() || !identical(entries.Value(), other) {
			return false
		}
	}
	return true
}
