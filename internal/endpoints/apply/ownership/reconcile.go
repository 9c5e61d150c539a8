package ownership

import (
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// A kindSchema is the merge schema of a kind, identified as a named type in a schema.
type kindSchema struct {
	schema *smd.Schema
	name   string
}

func (s kindSchema) root() smd.TypeRef { return smd.TypeRef{NamedType: &s.name} }

// reconciled reports whether typed.ReconcileFieldSetWithSchema would return the set unchanged. If a field
// has become atomic, its children in the set must be replaced by the field itself. This is necessary only
// once after an upgrade, so structured-merge-diff does it.
func (s kindSchema) reconciled(set []node) bool {
	return s.reconciledBelow(s.root(), set, false)
}

// reconciledBelow is like reconciled, for the children of a field. whole is set if the set contains the field
// itself and none of its children.
func (s kindSchema) reconciledBelow(ref smd.TypeRef, below []node, whole bool) bool {
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

func (s kindSchema) reconciledChildren(list []node, ref func(element) (smd.TypeRef, bool)) bool {
	for i := range list {
		n := &list[i]
		child, ok := ref(n.element)
		if ok && !s.reconciledBelow(child, n.children, n.mark&member != 0 && len(n.children) == 0) {
			return false
		}
	}
	return true
}

// fieldRef returns the type of an element of a map.
func fieldRef(m *smd.Map, e element) (smd.TypeRef, bool) {
	ref := m.ElementType
	if e == "" || e[0] < markKey {
		if f, ok := m.FindField(e); ok {
			ref = f.Type
		}
	}
	return ref, ref != smd.TypeRef{}
}

// untyped reports whether a map has no declared fields and accepts all fields.
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
