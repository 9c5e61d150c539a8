package ownership

import (
	"reflect"
	"slices"
	"strings"
)

// An item is an item of an associative list.
type item struct {
	element element
	value   reflect.Value
}

// compareLists compares two associative lists. At least one list is not empty.
func (d *differ) compareLists(p *plan, l, r side) {
	if l.present && r.present && l.Len() == r.Len() && d.comparePaired(p, l.Value, r.Value) {
		return
	}
	start := len(d.items)
	d.indexItems(p, l)
	middle := len(d.items)
	d.indexItems(p, r)
	lItems, rItems := d.items[start:middle:middle], d.items[middle:]
	for len(lItems) > 0 || len(rItems) > 0 {
		var e element
		if len(rItems) == 0 || len(lItems) > 0 && lItems[0].element <= rItems[0].element {
			e = lItems[0].element
		} else {
			e = rItems[0].element
		}
		var ls, rs []item
		ls, lItems = splitRun(lItems, e)
		rs, rItems = splitRun(rItems, e)
		d.compareItems(p, e, ls, rs)
	}
	d.items = d.items[:start]
}

// indexItems appends the items of a list to d.items, sorted by element. Items with the same element keep
// their order.
func (d *differ) indexItems(p *plan, l side) {
	if !l.present {
		return
	}
	start := len(d.items)
	for i := range l.Len() {
		v := l.Index(i)
		d.items = append(d.items, item{d.element(p, v), v})
	}
	slices.SortStableFunc(d.items[start:], func(x, y item) int { return strings.Compare(x.element, y.element) })
}

// splitRun splits off the leading items with element e.
func splitRun(items []item, e element) (run, rest []item) {
	n := 0
	for n < len(items) && items[n].element == e {
		n++
	}
	return items[:n], items[n:]
}

// compareItems compares the items of two lists that have element e. A valid list has at most one such item;
// duplicates count as a single field.
func (d *differ) compareItems(p *plan, e element, l, r []item) {
	n := len(d.stack)
	var m mark
	switch {
	case len(l) <= 1 && len(r) <= 1:
		m = d.compare(p.elem, singleItem(l), singleItem(r))
	case len(l) >= 2 && len(r) >= 2:
		if !slices.EqualFunc(l, r, func(x, y item) bool { return p.elem.same(x.value, y.value) }) {
			m = member
		}
	case len(l) >= 2:
		m = removed
		if len(r) == 1 {
			m |= d.compare(p.elem, side{}, singleItem(r))
		}
	default:
		m = member
		if len(l) == 1 {
			m |= d.compare(p.elem, singleItem(l), side{})
		}
	}
	d.push(e, m, d.popList(n))
}

func singleItem(items []item) side {
	if len(items) == 0 {
		return side{}
	}
	return present(items[0].value)
}

// comparePaired compares lists with the same items in the same order, which is the common case. For other
// lists, it returns false and adds no results.
func (d *differ) comparePaired(p *plan, l, r reflect.Value) bool {
	if l.Len() > 0 && l.UnsafePointer() == r.UnsafePointer() {
		return true
	}
	for i := range l.Len() {
		if !p.sameElement(l.Index(i), r.Index(i)) {
			return false
		}
	}
	if len(p.keys) == 0 {
		return true
	}
	start := len(d.stack)
	for i := range l.Len() {
		n := len(d.stack)
		m := d.compare(p.elem, present(l.Index(i)), present(r.Index(i)))
		if m != 0 || len(d.stack) > n {
			d.push(d.element(p, r.Index(i)), m, d.popList(n))
		}
	}
	if len(d.stack) == start {
		return true
	}
	// The items differ, so duplicates change the result.
	if d.hasDuplicates(p, r) {
		d.stack = d.stack[:start]
		return false
	}
	sortNodes(d.stack[start:])
	return true
}

// hasDuplicates reports whether two items of a list have the same element. It also returns true for long
// lists, for which the comparison of sorted items is faster.
func (d *differ) hasDuplicates(p *plan, l reflect.Value) bool {
	for i := range l.Len() {
		for j := range i {
			if i > 16 {
				return true
			}
			if p.sameElement(l.Index(i), l.Index(j)) {
				return true
			}
		}
	}
	return false
}

// sameElement reports whether two items have the same element, that is, equal keys or, in a list without
// keys, equal values.
func (p *plan) sameElement(l, r reflect.Value) bool {
	if len(p.keys) == 0 {
		l, lNull := p.elem.deref(l)
		r, rNull := p.elem.deref(r)
		return !lNull && !rNull && p.elem.sameScalar(l, r)
	}
	l, lNull := p.elem.deref(l)
	r, rNull := p.elem.deref(r)
	if lNull || rNull {
		return false
	}
	for i := range p.keys {
		key := &p.keys[i]
		if key.field == nil {
			continue
		}
		lv, lOmitted := key.field.of(l)
		rv, rOmitted := key.field.of(r)
		if lOmitted != rOmitted || !lOmitted && !key.field.plan.same(lv, rv) {
			return false
		}
	}
	return true
}

// element returns the encoded element of an item.
func (d *differ) element(p *plan, v reflect.Value) element {
	v, null := p.elem.deref(v)
	if null {
		d.fail(errUnsupported)
		return ""
	}
	encoded, err := d.encoded[:0], error(nil)
	if len(p.keys) == 0 {
		encoded, err = p.elem.appendKeyScalar(append(encoded, markValue), v)
	} else {
		encoded, err = p.appendKeys(append(encoded, markKey), v)
	}
	d.encoded = encoded
	if err != nil {
		d.fail(err)
		return ""
	}
	return string(encoded)
}

func (p *plan) appendKeys(dst []byte, v reflect.Value) ([]byte, error) {
	empty := len(dst)
	for i := range p.keys {
		key := &p.keys[i]
		var fv reflect.Value
		omitted := true
		if key.field != nil {
			fv, omitted = key.field.of(v)
		}
		if omitted && key.fallback == nil {
			continue
		}
		dst = append(append(append(dst, fieldFollows), key.name...), 0)
		if omitted {
			dst = append(dst, key.fallback...)
			continue
		}
		fv, null := key.field.plan.deref(fv)
		if null {
			return dst, errUnsupported
		}
		var err error
		if dst, err = key.field.plan.appendKeyScalar(dst, fv); err != nil {
			return dst, err
		}
	}
	if len(dst) == empty {
		return dst, errUnsupported
	}
	return append(dst, 0), nil
}
