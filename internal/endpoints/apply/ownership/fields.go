package ownership

import (
	"slices"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// readOptions configures how fieldsOf reads a document.
type readOptions struct {
	// owned leaves the fields on the stack; otherwise they are only checked.
	owned bool
	// checked also validates atomic values, for documents that might not conform to their schema.
	checked bool
	// duplicates permits several items with the same element.
	duplicates bool
	// emptyLists includes empty lists in the set. structured-merge-diff includes only empty maps.
	emptyLists bool
}

// asUnowned returns the options for the values below an atomic value.
func (r readOptions) asUnowned() readOptions {
	r.owned = false
	return r
}

// fieldsOf pushes the fields that a document sets onto the stack and returns the mark of the
// document. Documents that do not conform to their merge schema are unsupported.
func (d *differ) fieldsOf(ref smd.TypeRef, v any, how readOptions) mark {
	atom, ok := d.schema.Resolve(ref)
	if !ok {
		d.fail(errUnsupported)
		return 0
	}
	switch as := atomsOf(atom, doc{v, true}); {
	case as.mapping:
		m, ok := v.(map[string]any)
		if v != nil && !ok {
			d.fail(errUnsupported)
		}
		if atom.Map.ElementRelationship != smd.Atomic {
			d.fieldsOfMap(atom.Map, m, how)
			return 0
		}
		if how.checked {
			d.fieldsOfMap(atom.Map, m, how.asUnowned())
		}
	case as.scalar:
		if !scalarFits(*atom.Scalar, v) {
			d.fail(errUnsupported)
		}
	case as.list:
		list, ok := v.([]any)
		if v != nil && !ok {
			d.fail(errUnsupported)
		}
		if atom.List.ElementRelationship != smd.Atomic {
			d.fieldsOfList(atom.List, list, how)
			return 0
		}
		if how.checked {
			for _, item := range list {
				d.fieldsOf(atom.List.ElementType, item, how.asUnowned())
			}
		}
	default:
		d.fail(errUnsupported)
	}
	if !how.owned {
		return 0
	}
	return member
}

func scalarFits(s smd.Scalar, v any) bool {
	switch v.(type) {
	case nil:
		return true
	case string:
		return s == smd.String || s == smd.Untyped
	case bool:
		return s == smd.Boolean || s == smd.Untyped
	case int64, float64:
		return s == smd.Numeric || s == smd.Untyped
	}
	return false
}

func (d *differ) fieldsOfMap(m *smd.Map, values map[string]any, how readOptions) {
	n := len(d.names)
	for name := range values {
		d.names = append(d.names, name)
	}
	names := d.names[n:]
	slices.Sort(names)
	for _, name := range names {
		e, err := fieldElement(name)
		declared, ok := m.FindField(name)
		ref := declared.Type
		if !ok {
			ref = m.ElementType
		}
		if err != nil || !ok && (ref == smd.TypeRef{}) {
			d.fail(errUnsupported)
			break
		}
		v := values[name]
		start := len(d.stack)
		flags := d.fieldsOf(ref, v, how)
		if v == nil || !ok || isEmptyMap(v) || how.emptyLists && isEmptyList(v) {
			flags |= member
		}
		if !how.owned {
			d.stack = d.stack[:start]
			continue
		}
		d.push(e, flags, d.popList(start))
	}
	d.names = d.names[:n]
}

func (d *differ) fieldsOfList(l *smd.List, list []any, how readOptions) {
	items := d.indexDocuments(l, list)
	for len(items) > 0 {
		e := items[0].element
		var run []docItem
		run, items = splitDocumentRun(items, e)
		start := len(d.stack)
		if len(run) > 1 && !how.duplicates {
			d.fail(errUnsupported)
		}
		if len(run) == 1 || how.checked {
			for _, item := range run {
				d.fieldsOf(l.ElementType, item.value, how)
			}
		}
		if !how.owned {
			d.stack = d.stack[:start]
			continue
		}
		d.push(e, member, d.popList(start))
	}
}

func isEmptyMap(v any) bool {
	m, ok := v.(map[string]any)
	return ok && len(m) == 0
}

func isEmptyList(v any) bool {
	list, ok := v.([]any)
	return ok && len(list) == 0
}
