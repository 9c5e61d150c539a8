package ownership

import (
	"reflect"
	"slices"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// documents compares values that have a JSON form of their own, which every
// merge schema of theirs accepts.
func (d *differ) documents(p *plan, l, r side, lNull, rNull bool) mark {
	var docs [2]any
	for i, v := range []side{l, r} {
		if null := []bool{lNull, rNull}[i]; null {
			continue
		}
		doc, err := p.document(v.Value)
		if err != nil {
			d.fail(err)
			return 0
		}
		docs[i] = doc
	}
	return d.document(p.ref, docs[0], docs[1], l.present, r.present)
}

// atoms are the shapes that a merge schema leaves to a value.
type atoms struct{ scalar, list, mapping bool }

func atomsOf(atom smd.Atom, v any, present bool) atoms {
	a := atoms{atom.Scalar != nil, atom.List != nil, atom.Map != nil}
	if !present || v == nil {
		return a
	}
	switch v.(type) {
	case []any:
		if a.list {
			return atoms{list: true}
		}
	case map[string]any:
		if a.mapping {
			return atoms{mapping: true}
		}
	default:
		if a.scalar {
			return atoms{scalar: true}
		}
	}
	return a
}

// document compares JSON values whose merge schema accepts anything: its lists
// are atomic.
func (d *differ) document(ref smd.TypeRef, l, r any, lPresent, rPresent bool) mark {
	atom, ok := d.schema.Resolve(ref)
	if !ok || !acceptsAnything(atom) {
		d.fail(errUncovered)
		return 0
	}
	lAtoms, rAtoms := atomsOf(atom, l, lPresent), atomsOf(atom, r, rPresent)
	switch {
	case !rPresent:
		return d.documentAs(atom, lAtoms, l, r, lPresent, rPresent)
	case !lPresent || lAtoms == rAtoms:
		return d.documentAs(atom, rAtoms, l, r, lPresent, rPresent)
	}
	return d.documentAs(atom, lAtoms, l, r, true, true) | d.documentAs(atom, rAtoms, l, r, true, true)
}

func (d *differ) documentAs(atom smd.Atom, as atoms, l, r any, lPresent, rPresent bool) mark {
	if as.mapping && atom.Map.ElementRelationship != smd.Atomic {
		lm, _ := l.(map[string]any)
		rm, _ := r.(map[string]any)
		if len(lm) > 0 || len(rm) > 0 {
			d.documentMaps(atom.Map.ElementType, lm, rm)
			return absence(lPresent, rPresent)
		}
	}
	if lPresent && rPresent && !sameDocument(l, r) {
		return member
	}
	return absence(lPresent, rPresent)
}

func (d *differ) documentMaps(ref smd.TypeRef, l, r map[string]any) {
	n := len(d.names)
	for name := range l {
		d.names = append(d.names, name)
	}
	for name := range r {
		if _, ok := l[name]; !ok {
			d.names = append(d.names, name)
		}
	}
	names := d.names[n:]
	slices.Sort(names)
	for _, name := range names {
		e, err := fieldElement(name)
		if err != nil {
			d.fail(err)
			break
		}
		lv, lPresent := l[name]
		rv, rPresent := r[name]
		start := len(d.stack)
		m := d.document(ref, lv, rv, lPresent, rPresent)
		d.push(e, m, d.take(start))
	}
	d.names = d.names[:n]
}

// sameDocument tells whether two JSON values are the same, as
// structured-merge-diff sees those it made of Go values: numbers are the same
// by what they are worth, but within lists by their type too.
func sameDocument(l, r any) bool {
	switch l := l.(type) {
	case map[string]any:
		r, ok := r.(map[string]any)
		if !ok || len(l) != len(r) {
			return false
		}
		for name, lv := range l {
			if rv, ok := r[name]; !ok || !sameDocument(lv, rv) {
				return false
			}
		}
		return true
	case []any:
		r, ok := r.([]any)
		return ok && reflect.DeepEqual(l, r)
	case int64:
		if r, ok := r.(float64); ok {
			return float64(l) == r
		}
	case float64:
		if r, ok := r.(int64); ok {
			return l == float64(r)
		}
	}
	return l == r
}
