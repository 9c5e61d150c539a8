package ownership

import "reflect"

// A protobuf encoding is lossy, because it does not distinguish between empty and absent lists and maps.
// JSON distinguishes between them in fields without omitempty. In atomic values, structured-merge-diff
// distinguishes between them as well, and also between times and between quantities that have the same
// JSON.

// lossy reports whether different Go values of the kind may have the same encoding.
func (k planKind) lossy() bool {
	switch k {
	case planList, planMap, planQuantity, planTime, planMicroTime:
		return true
	}
	return false
}

func (k planKind) mayBeEmpty() bool { return k == planList || k == planMap }

// findLossy sets holdsLossy and ambiguous in all plans. If one of them is set, equal encodings do not imply
// equal values.
func (c *compiler) findLossy() {
	for changed := true; changed; {
		changed = false
		for _, p := range c.all {
			if !p.holdsLossy && p.anyBelow(func(below *plan) bool { return below.kind.lossy() || below.holdsLossy }) {
				p.holdsLossy, changed = true, true
			}
			if !p.ambiguous && p.mayBeAmbiguous() {
				p.ambiguous, changed = true, true
			}
		}
	}
}

func (p *plan) anyBelow(is func(*plan) bool) bool {
	if p.elem != nil && is(p.elem) {
		return true
	}
	for i := range p.fields {
		if is(p.fields[i].plan) {
			return true
		}
	}
	return false
}

func (p *plan) mayBeAmbiguous() bool {
	if p.atomic {
		return p.holdsLossy
	}
	if p.elem != nil && p.elem.kind.mayBeEmpty() {
		return true
	}
	for i := range p.fields {
		if f := &p.fields[i]; f.plan.kind.mayBeEmpty() && !f.omitEmpty {
			return true
		}
	}
	return p.anyBelow(func(below *plan) bool { return below.ambiguous })
}

// sameLossy reports whether two values with equal encodings are equal in their lossy parts. Atomic
// values are compared completely.
func (p *plan) sameLossy(l, r reflect.Value, whole bool) bool {
	if whole = whole || p.atomic; !p.ambiguous && (!whole || !p.holdsLossy) {
		return true
	}
	if p.pointer {
		if l.IsNil() || r.IsNil() {
			return l.IsNil() == r.IsNil()
		}
		l, r = l.Elem(), r.Elem()
	}
	switch p.kind {
	case planStruct:
		for i := range p.fields {
			if !p.fields[i].sameLossy(l, r, whole) {
				return false
			}
		}
		return true
	case planList:
		for i := range l.Len() {
			if !p.elem.sameBelow(l.Index(i), r.Index(i), whole) {
				return false
			}
		}
		return true
	case planMap:
		for entries := l.MapRange(); entries.Next(); {
			if !p.elem.sameBelow(entries.Value(), r.MapIndex(entries.Key()), whole) {
				return false
			}
		}
		return true
	}
	return false
}

func (f *field) sameLossy(l, r reflect.Value, whole bool) bool {
	if !whole && !f.plan.ambiguous && (f.omitEmpty || !f.plan.kind.mayBeEmpty()) {
		return true
	}
	l, lOmitted := f.of(l)
	r, rOmitted := f.of(r)
	if lOmitted && rOmitted && !whole {
		return true
	}
	return f.plan.sameBelow(l, r, whole)
}

// sameBelow is like sameLossy, for values for which JSON distinguishes between absent and empty.
func (p *plan) sameBelow(l, r reflect.Value, whole bool) bool {
	switch {
	case p.kind.mayBeEmpty() && !p.pointer:
		if l.IsNil() != r.IsNil() {
			return false
		}
	case whole && p.kind.lossy():
		return identical(l, r)
	}
	return p.sameLossy(l, r, whole)
}
