package codec

import (
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Names of the selectable fields that every kind has.
const (
	nameField      = "metadata.name"
	namespaceField = "metadata.namespace"
)

// pairs is a list of field or label names with their values. For small numbers of entries, a linear
// search is as fast as a map and uses a third of the memory.
type pairs []pair

type pair struct{ name, value string }

// pairsOf copies the strings of set, because they may share memory with a complete request body.
func pairsOf(set map[string]string) pairs {
	p := make(pairs, 0, len(set))
	for name, value := range set {
		p = append(p, pair{strings.Clone(name), strings.Clone(value)})
	}
	return p
}

// Lookup implements labels.Labels.
func (p pairs) Lookup(name string) (value string, exists bool) {
	for i := range p {
		if p[i].name == name {
			return p[i].value, true
		}
	}
	return "", false
}

// Has implements labels.Labels.
func (p pairs) Has(name string) bool {
	_, ok := p.Lookup(name)
	return ok
}

// Get implements labels.Labels.
func (p pairs) Get(name string) string {
	value, _ := p.Lookup(name)
	return value
}

// Matches reports whether both selectors match the object. A nil selector matches every object. Matches
// returns an error if the object cannot be decoded.
func (r *Record) Matches(label labels.Selector, field fields.Selector) (bool, error) {
	if label != nil && !label.Empty() {
		set, err := r.Labels()
		if err != nil || !label.Matches(set) {
			return false, err
		}
	}
	if field == nil || field.Empty() {
		return true, nil
	}
	known := &recordFields{record: r}
	chosen := field.Matches(known)
	return chosen && known.err == nil, known.err
}

// Labels returns the object's labels. It decodes the object only if the labels cannot be read from the
// stored value. It returns an error if decoding fails.
func (r *Record) Labels() (labels.Labels, error) {
	if stored, ok := storedLabelsOf(r.value); ok {
		return stored, nil
	}
	if known := r.labels.Load(); known != nil {
		return known, nil
	}
	obj, err := r.AsWritten()
	if err != nil {
		return nil, err
	}
	known := pairsOf(obj.GetLabels())
	r.labels.Store(&known)
	return &known, nil
}

// Field returns the value of a selectable field, or "" for an unknown field. It returns an error if the
// object cannot be decoded.
func (r *Record) Field(name string) (string, error) {
	known := recordFields{record: r}
	value := known.Get(name)
	return value, known.err
}

// Fields returns all selectable fields, including metadata.name and metadata.namespace. The caller owns the
// set. Fields returns an error if the object cannot be decoded.
func (r *Record) Fields() (fields.Set, error) {
	known, err := r.kindFields()
	if err != nil {
		return nil, err
	}
	set := make(fields.Set, len(known)+2)
	for _, p := range known {
		set[p.name] = p.value
	}
	set[nameField], set[namespaceField] = r.name.Name, r.name.Namespace
	return set, nil
}

// kindFields returns the result of Kind.Fields, and caches it.
func (r *Record) kindFields() (pairs, error) {
	if r.kind.Fields == nil {
		return nil, nil
	}
	if known := r.fields.Load(); known != nil {
		return *known, nil
	}
	obj, err := r.AsWritten()
	if err != nil {
		return nil, err
	}
	set := r.kind.Fields(obj)
	known := make(pairs, 0, len(set))
	for name, value := range set {
		known = append(known, pair{name, strings.Clone(value)}) // all records share the names
	}
	r.fields.Store(&known)
	return known, nil
}

// recordFields implements fields.Fields for a record. The methods of that interface cannot return errors,
// so err is set if a field could not be read.
type recordFields struct {
	record *Record
	err    error
}

// Has implements fields.Fields.
func (f *recordFields) Has(field string) bool {
	_, ok := f.lookup(field)
	return ok
}

// Get implements fields.Fields.
func (f *recordFields) Get(field string) string {
	value, _ := f.lookup(field)
	return value
}

func (f *recordFields) lookup(field string) (string, bool) {
	switch field {
	case nameField:
		return f.record.name.Name, true
	case namespaceField:
		return f.record.name.Namespace, true
	}
	known, err := f.record.kindFields()
	if err != nil {
		f.err = err
	}
	return known.Lookup(field)
}

// RequiredLabel returns the first label for which a selector requires one specific value, and that value.
// It returns empty strings if there is no such label or if the selector is nil.
func RequiredLabel(selector labels.Selector) (label, value string) {
	if selector == nil {
		return "", ""
	}
	requirements, _ := selector.Requirements()
	for i := range requirements {
		if value, ok := selector.RequiresExactMatch(requirements[i].Key()); ok {
			return requirements[i].Key(), value
		}
	}
	return "", ""
}
