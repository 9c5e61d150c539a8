package ownership

import (
	"maps"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// prune removes from a merged document the fields that the manager applied last time but not now, unless
// another manager owns them. managed contains the fields of all managers including the applied ones, and
// nulls contains the fields that are applied as null. merged is not modified.
func (d *differ) prune(s kindSchema, merged map[string]any, last, managed, nulls []node) map[string]any {
	lastNamed := d.withDeclaredFields(s, s.root(), last)
	inMerged := d.withDeclaredFields(s, s.root(), d.documentFields(s, merged))
	inPruned := d.withDeclaredFields(s, s.root(), d.documentFields(s, d.removeFields(s.root(), merged, lastNamed, nil)))

	// Restore owned fields that were removed with an item.
	kept := d.union(inPruned, d.withDeclaredFields(s, s.root(), managed))
	pruned := d.removeFields(s.root(), merged, d.subtract(inMerged, kept), nil)

	// Also restore fields of removed items that the manager never applied.
	inPruned = d.withDeclaredFields(s, s.root(), d.documentFields(s, pruned))
	out, _ := d.removeFields(s.root(), merged, d.intersect(d.subtract(inMerged, inPruned), lastNamed), d.subtract(managed, nulls)).(map[string]any)
	return out
}

// documentFields returns the fields that a conforming document sets.
func (d *differ) documentFields(s kindSchema, v any) []node {
	n := len(d.stack)
	d.fieldsOf(s.root(), v, readOptions{owned: true, duplicates: true})
	return d.popList(n)
}

// intersect returns the members that are in both sets.
func (b *builder) intersect(x, y []node) []node {
	n := len(b.stack)
	for i := range x {
		if other := findNode(y, x[i].element); other != nil {
			b.push(x[i].element, x[i].mark&other.mark&member, b.intersect(x[i].children, other.children))
		}
	}
	return b.popList(n)
}

// withDeclaredFields returns a set to which the declared fields on the paths to its members are added.
func (b *builder) withDeclaredFields(s kindSchema, ref smd.TypeRef, set []node) []node {
	atom, _ := s.schema.Resolve(ref)
	n := len(b.stack)
	for i := range set {
		have := set[i]
		child := smd.TypeRef{}
		isField := have.element == "" || have.element[0] < markKey
		switch {
		case isField && atom.Map != nil:
			child = atom.Map.ElementType
			if f, ok := atom.Map.FindField(have.element); ok {
				child = f.Type
				have.mark |= member
			}
		case !isField && have.element[0] == markKey && atom.List != nil:
			child = atom.List.ElementType
		}
		have.children = b.withDeclaredFields(s, child, have.children)
		b.stack = append(b.stack, have)
	}
	return b.popList(n)
}

// removeFields returns a document without the fields in out. As in structured-merge-diff, it replaces an
// atomic or empty value with null if a field below it is removed, and a map or list if all its fields are
// removed. A member of owned becomes empty instead of null, because its owner requested it and null would
// remove it.
func (d *differ) removeFields(ref smd.TypeRef, v any, out, owned []node) any {
	atom, ok := d.schema.Resolve(ref)
	if !ok {
		d.fail(errUnsupported)
		return nil
	}
	switch as := atomsOf(atom, doc{v, true}); {
	case as.mapping:
		m, ok := v.(map[string]any)
		if !ok || len(m) == 0 || atom.Map.ElementRelationship == smd.Atomic {
			return nil
		}
		return d.removeEntries(atom.Map, m, out, owned)
	case as.scalar:
		return v
	case as.list:
		list, ok := v.([]any)
		if !ok || len(list) == 0 || atom.List.ElementRelationship == smd.Atomic {
			return nil
		}
		return d.removeItems(atom.List, list, out, owned)
	}
	d.fail(errUnsupported)
	return nil
}

func (d *differ) removeEntries(m *smd.Map, values map[string]any, out, owned []node) any {
	left := maps.Clone(values)
	for i := range out {
		o := &out[i]
		v, ok := left[o.element]
		switch {
		case !ok:
		case o.mark&member != 0:
			delete(left, o.element)
		default:
			ref, _ := fieldRef(m, o.element)
			of, isOwned := below(owned, o.element)
			if left[o.element] = d.removeFields(ref, v, o.children, of); left[o.element] == nil && isOwned {
				left[o.element] = emptyLike(v)
			}
		}
	}
	if len(left) == 0 {
		return nil
	}
	return left
}

func (d *differ) removeItems(l *smd.List, list []any, out, owned []node) any {
	var left []any
	for _, item := range list {
		e := d.documentElement(l, item)
		o := findNode(out, e)
		switch {
		case o == nil:
			left = append(left, item)
		case o.mark&member == 0:
			of, _ := below(owned, e)
			left = append(left, d.removeFields(l.ElementType, item, o.children, of))
		}
	}
	if left == nil {
		return nil
	}
	return left
}
