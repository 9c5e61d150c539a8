package ownership

import (
	"reflect"
	"slices"
	"strings"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"

	"mainstay.dev/mainstay/internal/codec/protoequal"
)

// A differ compares two objects of a kind. The result is a field set. Its members are the added or
// changed fields; removed fields are marked. Methods push child nodes onto the stack and return the
// mark of the field itself. The first error ends the comparison.
type differ struct {
	builder
	schema *smd.Schema
	err    error

	names   []string // scratch memory for maps
	encoded []byte   // scratch memory for elements
	items   []item   // scratch memory for lists
}

func (d *differ) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// A side is a value on one side of a comparison. The value may be absent.
type side struct {
	reflect.Value
	present bool
}

func present(v reflect.Value) side { return side{v, true} }

// presenceMark returns the mark of a field that is present on only one side, or 0 if it is present on both.
func presenceMark(l, r bool) mark {
	switch {
	case !l:
		return member
	case !r:
		return removed
	}
	return 0
}

// compare compares two values of which at least one is present.
func (d *differ) compare(p *plan, l, r side) mark {
	lNull, rNull := true, true
	if l.present {
		l.Value, lNull = p.deref(l.Value)
	}
	if r.present {
		r.Value, rNull = p.deref(r.Value)
	}
	switch p.kind {
	case planStruct, planMap, planList:
		return d.compareContainer(p, l, r, lNull, rNull)
	case planDocument:
		return d.compareConverted(p, l, r, lNull, rNull)
	case planUnsupported, planManagedFields:
		d.fail(errUnsupported)
		return 0
	}
	if l.present && r.present && (lNull != rNull || !lNull && !p.sameScalar(l.Value, r.Value)) {
		return member
	}
	return presenceMark(l.present, r.present)
}

func (d *differ) compareContainer(p *plan, l, r side, lNull, rNull bool) mark {
	if p.atomic || p.kind != planStruct && p.isEmpty(l.Value, lNull) && p.isEmpty(r.Value, rNull) {
		return d.compareWhole(p, l, r, lNull, rNull)
	}
	below := func(v side, null bool) side { return side{v.Value, v.present && !null} }
	lBelow, rBelow := below(l, lNull), below(r, rNull)
	switch p.kind {
	case planStruct:
		if !d.compareStructs(p, lBelow, rBelow) {
			return d.compareWhole(p, l, r, lNull, rNull)
		}
	case planMap:
		d.compareMaps(p, lBelow, rBelow)
	default:
		d.compareLists(p, lBelow, rBelow)
	}
	return presenceMark(l.present, r.present)
}

// compareWhole compares containers that are owned as a whole, or are empty.
func (d *differ) compareWhole(p *plan, l, r side, lNull, rNull bool) mark {
	if !l.present || !r.present {
		return presenceMark(l.present, r.present)
	}
	if lNull != rNull {
		return member
	}
	if !lNull && !p.sameValue(l.Value, r.Value) {
		return member
	}
	return 0
}

// compareStructs compares the fields of structs. It returns false if no field is set.
func (d *differ) compareStructs(p *plan, l, r side) (any bool) {
	for i := range p.fields {
		f := &p.fields[i]
		var lv, rv side
		if l.present {
			v, omitted := f.of(l.Value)
			lv = side{v, !omitted}
		}
		if r.present {
			v, omitted := f.of(r.Value)
			rv = side{v, !omitted}
		}
		if !lv.present && !rv.present {
			continue
		}
		any = true
		if p.object && f.name != "metadata" && f.plan.sameEncoding(lv, rv) {
			continue
		}
		n := len(d.stack)
		m := d.compare(f.plan, lv, rv)
		d.push(f.name, m, d.popList(n))
	}
	return any
}

// sameEncoding reports whether parts of two objects are equal. It compares their encodings, and then the
// values that the encodings do not preserve. It may return false for equal parts.
func (p *plan) sameEncoding(l, r side) bool {
	return l.present && r.present && l.CanAddr() && r.CanAddr() && l.Kind() == reflect.Struct && !l.IsZero() &&
		protoequal.Equal(l.Addr().Interface(), r.Addr().Interface()) && p.sameLossy(l.Value, r.Value, false)
}

// compareMaps compares the entries of two maps. At least one map is not empty.
func (d *differ) compareMaps(p *plan, l, r side) {
	if l.present && r.present && l.UnsafePointer() == r.UnsafePointer() {
		return
	}
	if p.elem.kind == planText && !p.elem.pointer && d.compareStringMaps(l, r) {
		return
	}
	n := len(d.names)
	d.nameEntries(l, side{})
	d.nameEntries(r, l)
	names := d.names[n:]
	slices.Sort(names)
	key := reflect.Value{}
	for _, name := range names {
		if !key.IsValid() {
			v := l
			if !l.present {
				v = r
			}
			key = reflect.New(v.Type().Key()).Elem()
		}
		key.SetString(name)
		d.compareEntry(p, name, valueAt(l, key), valueAt(r, key))
	}
	d.names = d.names[:n]
}

func valueAt(m side, key reflect.Value) side {
	if !m.present {
		return side{}
	}
	v := m.MapIndex(key)
	return side{v, v.IsValid()}
}

// nameEntries collects the names of the entries of m that are not in other.
func (d *differ) nameEntries(m, other side) {
	if !m.present || m.Len() == 0 {
		return
	}
	key := reflect.New(m.Type().Key()).Elem()
	for entries := m.MapRange(); entries.Next(); {
		key.SetIterKey(entries)
		if !other.present || !other.MapIndex(key).IsValid() {
			d.names = append(d.names, key.String())
		}
	}
}

func (d *differ) compareEntry(p *plan, name string, l, r side) {
	e, err := fieldElement(name)
	if err != nil {
		d.fail(err)
		return
	}
	n := len(d.stack)
	m := d.compare(p.elem, l, r)
	d.push(e, m, d.popList(n))
}

// compareStringMaps compares maps of type map[string]string, the most common type. It returns false for other
// types.
func (d *differ) compareStringMaps(l, r side) bool {
	var lm, rm map[string]string
	if l.present {
		m, ok := l.Interface().(map[string]string)
		if !ok {
			return false
		}
		lm = m
	}
	if r.present {
		m, ok := r.Interface().(map[string]string)
		if !ok {
			return false
		}
		rm = m
	}
	n := len(d.stack)
	for name, was := range lm {
		if is, ok := rm[name]; !ok {
			d.pushStringEntry(name, removed)
		} else if is != was {
			d.pushStringEntry(name, member)
		}
	}
	for name := range rm {
		if _, ok := lm[name]; !ok {
			d.pushStringEntry(name, member)
		}
	}
	sortNodes(d.stack[n:])
	return true
}

func (d *differ) pushStringEntry(name string, m mark) {
	e, err := fieldElement(name)
	if err != nil {
		d.fail(err)
	}
	d.push(e, m, nil)
}

func sortNodes(list []node) {
	if len(list) > 1 {
		slices.SortFunc(list, func(x, y node) int { return strings.Compare(x.element, y.element) })
	}
}
