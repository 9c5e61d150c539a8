package ownership

import (
	"reflect"

	"mainstay.dev/mainstay/internal/codec"
)

// Converting a whole document to a Go object would take most of the time of an apply, although most of the
// document is unchanged. Therefore, only the changed parts are converted and inserted into a copy of the
// live object. In the functions below, before and after are values of the two documents, which share the
// memory of unchanged parts.

// rebuild converts the document after to an object. before is the document of live, which is not modified.
func (k *Kind) rebuild(live codec.Object, before, after map[string]any) (codec.Object, error) {
	part, changed := k.plan.changed(before, after)
	if !changed {
		part = map[string]any{}
	}
	decoded, _, err := k.version.FromDocument(part.(map[string]any), false)
	if err != nil {
		return nil, err
	}
	out := live.DeepCopyObject().(codec.Object)
	k.plan.replace(reflect.ValueOf(out), reflect.ValueOf(decoded), before, after)
	return out, nil
}

// changed returns the part of after that differs from before. A changed list keeps its number of items; an
// empty item replaces each unchanged item.
func (p *plan) changed(before, after any) (any, bool) {
	switch {
	case unchanged(before, after):
		return nil, false
	case p.fieldwise(before, after):
		return p.changedFields(before.(map[string]any), after.(map[string]any)), true
	case p.itemwise(before, after):
		return p.changedItems(before.([]any), after.([]any)), true
	}
	return after, true
}

func (p *plan) changedFields(before, after map[string]any) map[string]any {
	part := make(map[string]any, 1)
	for i := range p.fields {
		f := &p.fields[i]
		value, ok := after[f.name]
		if !ok {
			continue
		}
		if was, ok := before[f.name]; ok {
			if value, ok = f.plan.changed(was, value); !ok {
				continue
			}
		}
		part[f.name] = value
	}
	return part
}

func (p *plan) changedItems(before, after []any) []any {
	part := make([]any, len(after))
	for i := range after {
		item, changed := p.elem.changed(before[i], after[i])
		if !changed {
			item = map[string]any{}
		}
		part[i] = item
	}
	return part
}

// replace inserts decoded, which was converted from the result of changed, into value, the Go value of
// before.
func (p *plan) replace(value, decoded reflect.Value, before, after any) {
	switch {
	case unchanged(before, after):
	case p.fieldwise(before, after):
		value, _ = p.deref(value)
		decoded, _ = p.deref(decoded)
		p.replaceFields(value, decoded, before.(map[string]any), after.(map[string]any))
	case p.itemwise(before, after):
		before, after := before.([]any), after.([]any)
		value, _ = p.deref(value)
		decoded, _ = p.deref(decoded)
		for i := range after {
			p.elem.replace(value.Index(i), decoded.Index(i), before[i], after[i])
		}
	default:
		value.Set(decoded)
	}
}

func (p *plan) replaceFields(value, decoded reflect.Value, before, after map[string]any) {
	for i := range p.fields {
		f := &p.fields[i]
		was, there := before[f.name]
		is, stays := after[f.name]
		if !there && !stays {
			continue
		}
		value, _ := f.of(value)
		decoded, _ := f.of(decoded)
		if there && stays {
			f.plan.replace(value, decoded, was, is)
		} else {
			value.Set(decoded)
		}
	}
}

// unchanged reports whether two values are certainly equal; it does not compare the content of
// different containers.
func unchanged(before, after any) bool {
	if isScalar(before) && isScalar(after) {
		return before == after
	}
	return sameMemory(before, after)
}

// fieldwise reports whether both values are structs, so that their fields can be compared.
func (p *plan) fieldwise(before, after any) bool {
	l, _ := before.(map[string]any)
	r, _ := after.(map[string]any)
	return p.kind == planStruct && l != nil && r != nil
}

// itemwise reports whether both values are lists of structs with the same length, so that their
// items can be compared.
func (p *plan) itemwise(before, after any) bool {
	l, _ := before.([]any)
	r, _ := after.([]any)
	return p.kind == planList && len(l) > 0 && len(l) == len(r) &&
		p.elem.kind == planStruct && allStructs(l) && allStructs(r)
}

func allStructs(items []any) bool {
	for _, item := range items {
		if m, _ := item.(map[string]any); m == nil {
			return false
		}
	}
	return true
}
