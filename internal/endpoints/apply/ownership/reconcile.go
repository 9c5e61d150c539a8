package ownership

import (
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// A schemaOf is the merge schema of one kind: a type of a schema, by name.
type schemaOf struct {
	schema *smd.Schema
	name   string
}

func (s schemaOf) root() smd.TypeRef { return smd.TypeRef{NamedType: &s.name} }

// reconciled reports whether a set agrees with a merge schema, as
// typed.ReconcileFieldSetWithSchema makes it: fields below one that is atomic
// by now have to give way to that one, which this package leaves to
// structured-merge-diff, for it happens once after an upgrade.
func (s schemaOf) reconciled(set []node) bool {
	return s.reconciledBelow(s.root(), set, false)
}

// reconciledBelow looks at what is below a field; whole says that the field is in the
// set and nothing below it is.
func (s schemaOf) reconciledBelow(ref smd.TypeRef, below []node, whole bool) bool {
	atom, ok := s.schema.Resolve(ref)
	if !ok {
		return false
	}
	switch {
	case atom.Map != nil:
		if untyped(atom.Map) {
			return true
		}
		if !whole && atom.Map.ElementRelationship == smd.Atomic {
			return len(below) == 0
		}
		return s.reconciledChildren(below, func(e element) (smd.TypeRef, bool) { return fieldRef(atom.Map, e) })
	case atom.Scalar != nil:
		return true
	case atom.List != nil:
		if !whole && atom.List.ElementRelationship == smd.Atomic {
			return false
		}
		return s.reconciledChildren(below, func(element) (smd.TypeRef, bool) { return atom.List.ElementType, true })
	}
	return false
}

func (s schemaOf) reconciledChildren(list []node, ref func(element) (smd.TypeRef, bool)) bool {
	for i := range list {
		n := &list[i]
		child, ok := ref(n.element)
		if ok && !s.reconciledBelow(child, n.children, n.mark&member != 0 && len(n.children) == 0) {
			return false
		}
	}
	return true
}

// fieldRef is the type of what an element names in a map.
func fieldRef(m *smd.Map, e element) (smd.TypeRef, bool) {
	ref := m.ElementType
	if e == "" || e[0] < markKey {
		if f, ok := m.FindField(e); ok {
			ref = f.Type
		}
	}
	return ref, ref != smd.TypeRef{}
}

// untyped reports whether a map has no fields of its own but takes any.
func untyped(m *smd.Map) bool {
	if m.Fields != nil {
		return false
	}
	if name := m.ElementType.NamedType; name != nil {
		return *name == "__untyped_deduced_"
	}
	scalar := m.ElementType.Inlined.Scalar
	return scalar != nil && *scalar == smd.Untyped
}
