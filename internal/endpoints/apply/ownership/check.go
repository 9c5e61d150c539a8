package ownership

import (
	"bytes"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conforms reports whether a value conforms to its merge schema and is supported. It checks only
// the parts of the value whose plan is fallible.
func (p *plan) conforms(v reflect.Value) bool {
	if !p.fallible {
		return true
	}
	if p.kind == planUnsupported {
		return false
	}
	v, null := p.deref(v)
	if null {
		return true
	}
	switch p.kind {
	case planManagedFields:
		raw := as[metav1.FieldsV1](v).GetRawBytes()
		return raw == nil || bytes.HasPrefix(raw, []byte("{"))
	case planStruct:
		for i := range p.fields {
			f := &p.fields[i]
			if !f.plan.fallible {
				continue
			}
			if below, omitted := f.of(v); !omitted && !f.plan.conforms(below) {
				return false
			}
		}
	case planMap:
		for entries := v.MapRange(); entries.Next(); {
			if !p.elem.conforms(entries.Value()) {
				return false
			}
		}
	case planList:
		for i := range v.Len() {
			if item := v.Index(i); p.associative && !p.hasElement(item) || !p.elem.conforms(item) {
				return false
			}
		}
	}
	return true
}

// hasElement reports whether an item of an associative list can be identified by its keys or value.
func (p *plan) hasElement(item reflect.Value) bool {
	item, null := p.elem.deref(item)
	if null {
		return false
	}
	if !p.keysOptional {
		return true
	}
	for _, key := range p.keys {
		if key.field != nil {
			if _, omitted := key.field.of(item); !omitted {
				return true
			}
		}
	}
	return false
}
