package ownership

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"

	"mainstay.dev/mainstay/internal/codec"
)

// Refill restores empty maps and lists in merged, the result of structured-merge-diff for live and an applied
// configuration. structured-merge-diff replaces empty maps and lists with null or removes them. Refill
// restores each map and list that a manager owns or that is empty in the configuration, as Apply does. It
// does not modify its arguments. It returns merged itself if no field is missing, or if the objects are
// unsupported.
func (k *Kind) Refill(live, merged codec.Object, applied *unstructured.Unstructured, manager string) codec.Object {
	if !k.supports(live) || !k.supports(merged) || applied.GroupVersionKind() != k.gvk {
		return merged
	}
	w := k.workspace()
	defer k.releaseWorkspace(w)
	owned := k.ownedByOthers(w, live.GetManagedFields(), k.applier(manager))
	owned = w.subtract(w.union(owned, k.appliedFields(w, applied.Object)), w.nullsOf(k.root, applied.Object))
	before, after := k.document(w, live), k.document(w, merged)
	refilled := w.refill(k.root, before, after, owned).(map[string]any)
	if w.err != nil || sameMemory(after, refilled) {
		return merged
	}
	out, err := k.object(refilled)
	if err != nil {
		return merged
	}
	out.SetManagedFields(merged.GetManagedFields())
	return out
}

// ownedByOthers returns the fields of all managers except self, in all versions.
func (k *Kind) ownedByOthers(w *workspace, fields []metav1.ManagedFieldsEntry, self owner) []node {
	var all []node
	for i := range fields {
		f := &fields[i]
		if f.Operation == self.operation && f.Manager == self.manager && f.Subresource == self.subresource {
			continue
		}
		if set, err := k.parse(f.FieldsV1); err == nil {
			all = w.union(all, set.nodes)
		}
	}
	return all
}

// nullsOf returns the fields that a document sets to null.
func (d *differ) nullsOf(ref smd.TypeRef, v any) []node {
	atom, ok := d.schema.Resolve(ref)
	if !ok {
		return nil
	}
	n := len(d.stack)
	switch v := v.(type) {
	case map[string]any:
		if atom.Map == nil || atom.Map.ElementRelationship == smd.Atomic {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			below, _ := fieldRef(atom.Map, name)
			var m mark
			if v[name] == nil {
				m = member
			}
			d.push(name, m, d.nullsOf(below, v[name]))
		}
	case []any:
		if atom.List == nil || atom.List.ElementRelationship == smd.Atomic || len(atom.List.Keys) == 0 {
			return nil
		}
		for _, item := range d.indexDocuments(atom.List, v) {
			d.push(item.element, 0, d.nullsOf(atom.List.ElementType, item.value))
		}
	}
	return d.popList(n)
}

// refill returns after with an empty map or list for each member of owned that is a map or list in before and
// is missing in after.
func (d *differ) refill(ref smd.TypeRef, before, after any, owned []node) any {
	atom, ok := d.schema.Resolve(ref)
	if !ok || len(owned) == 0 {
		return after
	}
	switch after := after.(type) {
	case map[string]any:
		if b, ok := before.(map[string]any); ok && atom.Map != nil && atom.Map.ElementRelationship != smd.Atomic {
			return d.refillEntries(atom.Map, b, after, owned)
		}
	case []any:
		if b, ok := before.([]any); ok && atom.List != nil && atom.List.ElementRelationship != smd.Atomic && len(atom.List.Keys) > 0 {
			return d.refillItems(atom.List, b, after, owned)
		}
	}
	return after
}

func (d *differ) refillEntries(m *smd.Map, before, after map[string]any, owned []node) any {
	out := after
	for i := range owned {
		n := &owned[i]
		was, ok := before[n.element]
		if !ok || emptyLike(was) == nil {
			continue
		}
		left := after[n.element]
		ref, _ := fieldRef(m, n.element)
		switch {
		case left != nil:
			left = d.refill(ref, was, left, n.children)
		case n.mark&member != 0:
			left = emptyLike(was)
		}
		if left == nil || sameMemory(left, after[n.element]) {
			continue
		}
		if sameMemory(out, after) {
			out = maps.Clone(after)
		}
		out[n.element] = left
	}
	return out
}

func (d *differ) refillItems(l *smd.List, before, after []any, owned []node) any {
	out, was := after, d.firstItems(l, before)
	for i, item := range after {
		if item == nil {
			continue
		}
		e := d.documentElement(l, item)
		of, _ := below(owned, e)
		left := d.refill(l.ElementType, was[e], item, of)
		if sameMemory(left, item) {
			continue
		}
		if sameMemory(out, after) {
			out = slices.Clone(after)
		}
		out[i] = left
	}
	return out
}

// firstItems returns the first item for each element of a list. It skips null items.
func (d *differ) firstItems(l *smd.List, list []any) map[element]any {
	first := make(map[element]any, len(list))
	for _, item := range list {
		if item == nil {
			continue
		}
		if e := d.documentElement(l, item); first[e] == nil {
			first[e] = item
		}
	}
	return first
}

// below returns the children of an element in a set. isMember reports whether the element itself is in the
// set.
func below(set []node, e element) (children []node, isMember bool) {
	if n := findNode(set, e); n != nil {
		return n.children, n.mark&member != 0
	}
	return nil, false
}

// emptyLike returns an empty map for a map, an empty list for a list, and nil for other values.
func emptyLike(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v != nil {
			return map[string]any{}
		}
	case []any:
		if v != nil {
			return []any{}
		}
	}
	return nil
}
