package ownership

import (
	"slices"
	"strings"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// compareConverted compares values whose type has its own JSON encoding. Such values always conform to
// their merge schema.
func (d *differ) compareConverted(p *plan, l, r side, lNull, rNull bool) mark {
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
	return d.compareDocument(p.ref, doc{docs[0], l.present}, doc{docs[1], r.present}, sameDocument)
}

// A doc is a JSON value, which may be absent. A nil value is null.
type doc struct {
	value   any
	present bool
}

// An equalFunc reports whether two JSON values are the same.
type equalFunc func(l, r any) bool

// atoms contains the shapes that a merge schema permits for a value.
type atoms struct{ scalar, list, mapping bool }

func atomsOf(atom smd.Atom, v doc) atoms {
	a := atoms{atom.Scalar != nil, atom.List != nil, atom.Map != nil}
	if !v.present || v.value == nil {
		return a
	}
	switch v.value.(type) {
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

// compareDocument compares JSON values that conform to a merge schema.
func (d *differ) compareDocument(ref smd.TypeRef, l, r doc, same equalFunc) mark {
	if l.present && r.present && sameMemory(l.value, r.value) {
		return 0
	}
	atom, ok := d.schema.Resolve(ref)
	if !ok {
		d.fail(errUnsupported)
		return 0
	}
	lAtoms, rAtoms := atomsOf(atom, l), atomsOf(atom, r)
	switch {
	case !r.present:
		return d.compareDocumentAs(atom, lAtoms, l, r, same)
	case !l.present || lAtoms == rAtoms:
		return d.compareDocumentAs(atom, rAtoms, l, r, same)
	}
	return d.compareDocumentAs(atom, lAtoms, l, r, same) | d.compareDocumentAs(atom, rAtoms, l, r, same)
}

func (d *differ) compareDocumentAs(atom smd.Atom, as atoms, l, r doc, same equalFunc) mark {
	switch {
	case as.mapping:
		lm, _ := l.value.(map[string]any)
		rm, _ := r.value.(map[string]any)
		if atom.Map.ElementRelationship != smd.Atomic && len(lm)+len(rm) > 0 {
			d.compareDocumentMaps(atom.Map, lm, rm, same)
			return presenceMark(l.present, r.present)
		}
	case as.scalar:
	case as.list:
		ll, _ := l.value.([]any)
		rl, _ := r.value.([]any)
		if atom.List.ElementRelationship != smd.Atomic && len(ll)+len(rl) > 0 {
			d.compareDocumentLists(atom.List, ll, rl, same)
			return presenceMark(l.present, r.present)
		}
	default:
		d.fail(errUnsupported)
	}
	if l.present && r.present && !same(l.value, r.value) {
		return member
	}
	return presenceMark(l.present, r.present)
}

func (d *differ) compareDocumentMaps(m *smd.Map, l, r map[string]any, same equalFunc) {
	n := len(d.names)
	for name, lv := range l {
		if rv, ok := r[name]; !ok || !sameMemory(lv, rv) {
			d.names = append(d.names, name)
		}
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
		ref, _ := fieldRef(m, e)
		lv, lPresent := l[name]
		rv, rPresent := r[name]
		start := len(d.stack)
		flags := d.compareDocument(ref, doc{lv, lPresent}, doc{rv, rPresent}, same)
		d.push(e, flags, d.popList(start))
	}
	d.names = d.names[:n]
}

// A docItem is an item of an associative list.
type docItem struct {
	element element
	value   any
}

func (d *differ) compareDocumentLists(l *smd.List, left, right []any, same equalFunc) {
	if len(left) == len(right) && same(left, right) {
		return
	}
	lItems, rItems := d.indexDocuments(l, left), d.indexDocuments(l, right)
	for len(lItems) > 0 || len(rItems) > 0 {
		var e element
		if len(rItems) == 0 || len(lItems) > 0 && lItems[0].element <= rItems[0].element {
			e = lItems[0].element
		} else {
			e = rItems[0].element
		}
		var ls, rs []docItem
		ls, lItems = splitDocumentRun(lItems, e)
		rs, rItems = splitDocumentRun(rItems, e)
		d.compareDocumentItems(l, e, ls, rs, same)
	}
}

func splitDocumentRun(items []docItem, e element) (run, rest []docItem) {
	n := 0
	for n < len(items) && items[n].element == e {
		n++
	}
	return items[:n], items[n:]
}

// indexDocuments returns the items of a list in order of their elements.
func (d *differ) indexDocuments(l *smd.List, list []any) []docItem {
	items := make([]docItem, len(list))
	for i, v := range list {
		items[i] = docItem{d.documentElement(l, v), v}
	}
	slices.SortStableFunc(items, func(x, y docItem) int { return strings.Compare(x.element, y.element) })
	return items
}

// compareDocumentItems is like compareItems, for the items of JSON lists.
func (d *differ) compareDocumentItems(list *smd.List, e element, l, r []docItem, same equalFunc) {
	n := len(d.stack)
	var m mark
	switch {
	case len(l) <= 1 && len(r) <= 1:
		m = d.compareDocument(list.ElementType, singleDocument(l), singleDocument(r), same)
	case len(l) >= 2 && len(r) >= 2:
		if !slices.EqualFunc(l, r, func(x, y docItem) bool { return same(x.value, y.value) }) {
			m = member
		}
	case len(l) >= 2:
		m = removed
		if len(r) == 1 {
			m |= d.compareDocument(list.ElementType, doc{}, singleDocument(r), same)
		}
	default:
		m = member
		if len(l) == 1 {
			m |= d.compareDocument(list.ElementType, singleDocument(l), doc{}, same)
		}
	}
	d.push(e, m, d.popList(n))
}

func singleDocument(items []docItem) doc {
	if len(items) == 0 {
		return doc{}
	}
	return doc{items[0].value, true}
}

// documentElement returns the encoded element of an item of an associative list.
func (d *differ) documentElement(l *smd.List, v any) element {
	encoded, err := d.encoded[:0], error(nil)
	if l.ElementRelationship != smd.Associative {
		err = errUnsupported
	} else if len(l.Keys) == 0 {
		encoded, err = appendScalar(append(encoded, markValue), v)
	} else {
		encoded, err = d.appendDocumentKeys(append(encoded, markKey), l, v)
	}
	d.encoded = encoded
	if err != nil {
		d.fail(err)
	}
	return string(encoded)
}

func (d *differ) appendDocumentKeys(dst []byte, l *smd.List, v any) ([]byte, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return dst, errUnsupported
	}
	keys := l.Keys
	if !slices.IsSorted(keys) {
		keys = slices.Sorted(slices.Values(keys))
	}
	empty := len(dst)
	for _, name := range keys {
		key, ok := m[name]
		if !ok {
			if key = d.keyDefault(l, name); key == nil {
				continue
			}
		}
		var err error
		dst = append(append(append(dst, fieldFollows), name...), 0)
		if dst, err = appendScalar(dst, key); err != nil {
			return dst, err
		}
	}
	if len(dst) == empty {
		return dst, errUnsupported
	}
	return append(dst, 0), nil
}

// keyDefault returns the default value of a key that an item omits, or nil if there is no default.
func (d *differ) keyDefault(l *smd.List, name string) any {
	atom, ok := d.schema.Resolve(l.ElementType)
	if !ok || atom.Map == nil {
		d.fail(errUnsupported)
		return nil
	}
	f, _ := atom.Map.FindField(name)
	return f.Default
}
