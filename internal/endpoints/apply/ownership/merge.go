package ownership

import (
	"maps"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// merge returns live overlaid with applied. The result shares memory with both, and is live itself
// if applied changes no field. The second result is false if the merge result is absent.
func (d *differ) merge(ref smd.TypeRef, live, applied doc) (any, bool) {
	switch {
	case !applied.present:
		return live.value, live.present
	case !live.present:
		return applied.value, true
	}
	atom, ok := d.schema.Resolve(ref)
	if !ok {
		d.fail(errUnsupported)
		return nil, false
	}
	// If the shapes differ, the applied value determines the shape.
	switch as := atomsOf(atom, applied); {
	case as.mapping:
		lm, _ := live.value.(map[string]any)
		am, _ := applied.value.(map[string]any)
		if atom.Map.ElementRelationship != smd.Atomic && len(lm)+len(am) > 0 {
			return d.mergeMaps(atom.Map, lm, am), true
		}
	case as.scalar:
	case as.list:
		ll, _ := live.value.([]any)
		al, _ := applied.value.([]any)
		if atom.List.ElementRelationship != smd.Atomic && len(ll)+len(al) > 0 {
			return d.mergeLists(atom.List, ll, al)
		}
	default:
		d.fail(errUnsupported)
	}
	if sameValue(live.value, applied.value) {
		return live.value, true
	}
	return applied.value, true
}

func (d *differ) mergeMaps(m *smd.Map, live, applied map[string]any) any {
	out, own := live, false
	for name, av := range applied {
		ref, _ := fieldRef(m, name)
		lv, ok := live[name]
		merged, left := d.merge(ref, doc{lv, ok}, doc{av, true})
		if ok && left && (sameMemory(lv, merged) || isScalar(merged) && lv == merged) {
			continue
		}
		if !own {
			out, own = maps.Clone(live), true
			if out == nil {
				out = make(map[string]any, len(applied))
			}
		}
		if left {
			out[name] = merged
		} else {
			delete(out, name)
		}
	}
	return out
}

// isScalar reports whether a JSON value is a scalar or null.
func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// mergeLists merges associative lists. Items have the order of applied; items that only live
// contains keep their position relative to the common items.
func (d *differ) mergeLists(l *smd.List, live, applied []any) (any, bool) {
	m := listMerge{d: d, list: l, live: live, applied: applied, merged: map[element]bool{}}
	m.liveAt, m.liveElements = d.positions(l, live)
	m.appliedAt, m.appliedElements = d.positions(l, applied)
	if d.err != nil || len(m.appliedAt) != len(applied) {
		d.fail(errUnsupported)
		return nil, false
	}
	out := m.run()
	if sameItems(live, out) {
		return live, true
	}
	return out, len(out) > 0
}

// sameItems reports whether two lists have identical items: containers in the same memory, or equal
// scalars.
func sameItems(x, y []any) bool {
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if !sameMemory(x[i], y[i]) && !(isScalar(x[i]) && isScalar(y[i]) && x[i] == y[i]) {
			return false
		}
	}
	return true
}

// positions returns the index of each element in a list, or -1 for a duplicate, and the elements in
// order.
func (d *differ) positions(l *smd.List, list []any) (map[element]int, []element) {
	at := make(map[element]int, len(list))
	elements := make([]element, len(list))
	for i, v := range list {
		e := d.documentElement(l, v)
		elements[i] = e
		if _, twice := at[e]; twice {
			at[e] = -1
		} else {
			at[e] = i
		}
	}
	return at, elements
}

// A listMerge is the state of merging two lists.
type listMerge struct {
	d                             *differ
	list                          *smd.List
	live, applied                 []any
	liveAt, appliedAt             map[element]int
	liveElements, appliedElements []element
	// merged contains the applied elements that are in the result.
	merged map[element]bool
	// shared contains the remaining common elements, in the order of applied.
	shared []element
	out    []any
}

func (m *listMerge) run() []any {
	for _, e := range m.appliedElements {
		if _, ok := m.liveAt[e]; ok {
			m.shared = append(m.shared, e)
		}
	}
	for l, a := 0, 0; l < len(m.live) || a < len(m.applied); {
		if l < len(m.live) && a < len(m.applied) {
			e := m.liveElements[l]
			if e == m.appliedElements[a] {
				m.addApplied(e)
				l, a = l+1, a+1
				m.nextShared()
				continue
			}
			if _, ok := m.appliedAt[e]; ok && len(m.shared) > 0 && m.shared[0] != e {
				l++ // its applied position follows
				continue
			}
		}
		if l < len(m.live) {
			e := m.liveElements[l]
			if _, ok := m.appliedAt[e]; !ok {
				m.out = append(m.out, m.live[l])
				l++
				continue
			}
			if m.merged[e] {
				l++
			}
		}
		if a < len(m.applied) {
			e := m.appliedElements[a]
			m.addApplied(e)
			a++
			if len(m.shared) > 0 && m.shared[0] == e {
				m.nextShared()
			}
		}
	}
	return m.out
}

func (m *listMerge) nextShared() {
	if len(m.shared) > 0 {
		m.shared = m.shared[1:]
	}
}

// addApplied appends the applied item with element e to the result, merged with the live item if there is
// one.
func (m *listMerge) addApplied(e element) {
	m.merged[e] = true
	live := doc{}
	if i, ok := m.liveAt[e]; ok {
		live.present = true // the value is null if live contains several items with this element
		if i >= 0 {
			live.value = m.live[i]
		}
	}
	if merged, left := m.d.merge(m.list.ElementType, live, doc{m.applied[m.appliedAt[e]], true}); left {
		m.out = append(m.out, merged)
	}
}
