package ownership

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An entry is one entry of managed fields.
type entry struct {
	owner
	time *metav1.Time
	set  *fieldSet
	// nodes contains the fields. After a change, it differs from the fields of set.
	nodes   []node
	changed bool
}

// An owner is the identity of an entry.
type owner struct {
	manager     string
	operation   metav1.ManagedFieldsOperationType
	apiVersion  string // empty for an apply, in any version
	subresource string
}

func (e *entry) setNodes(list []node) {
	e.nodes, e.changed = list, true
}

// sameNodes reports whether two lists share the same memory.
func sameNodes(a, b []node) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// isReset reports whether managed fields request a reset. They do if the list is empty but not nil, or if
// it consists of one empty entry.
func isReset(fields []metav1.ManagedFieldsEntry) bool {
	switch len(fields) {
	case 0:
		return fields != nil
	case 1:
		return fields[0] == metav1.ManagedFieldsEntry{}
	}
	return false
}

// decode decodes managed fields. It returns errMalformed if they are invalid, and another error if they are
// unsupported.
func (k *Kind) decode(fields []metav1.ManagedFieldsEntry) ([]entry, error) {
	entries := make([]entry, 0, len(fields)+1)
	var unsupported error
	for i := range fields {
		f := &fields[i]
		if !valid(f) {
			return nil, errMalformed
		}
		set, err := k.parse(f.FieldsV1)
		if err == errMalformed {
			return nil, err
		}
		if err != nil || !set.reconciled || f.APIVersion != k.apiVersion || !isASCII(f.Manager) || !isASCII(f.Subresource) {
			unsupported = errUnsupported
			continue
		}
		e := entry{owner: owner{f.Manager, f.Operation, f.APIVersion, f.Subresource}, time: f.Time, set: set, nodes: set.nodes}
		if f.Operation == metav1.ManagedFieldsOperationApply {
			e.apiVersion = ""
		}
		// If an owner has several entries, the last one applies.
		if same := ownedBy(entries, e.owner); same != nil {
			*same = e
		} else {
			entries = append(entries, e)
		}
	}
	return entries, unsupported
}

func valid(f *metav1.ManagedFieldsEntry) bool {
	return (f.Operation == metav1.ManagedFieldsOperationApply || f.Operation == metav1.ManagedFieldsOperationUpdate) &&
		f.APIVersion != "" && f.FieldsType == "FieldsV1"
}

// isASCII reports whether a text consists of ASCII characters, all of which JSON encoding preserves.
func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func ownedBy(entries []entry, o owner) *entry {
	for i := range entries {
		if entries[i].owner == o {
			return &entries[i]
		}
	}
	return nil
}

func (k *Kind) parse(f *metav1.FieldsV1) (*fieldSet, error) {
	raw := []byte("{}")
	if f != nil {
		raw = f.GetRawBytes()
	}
	if set := k.cache.get(k.schema, raw); set != nil {
		return set, nil
	}
	set, err := parse(raw)
	if err != nil {
		return nil, err
	}
	set.reconciled = k.schema.reconciled(set.nodes)
	k.cache.put(k.schema, raw, set)
	return set, nil
}

// encode converts entries to managed fields, sorted as in apimachinery.
func (k *Kind) encode(entries []entry, e *encoder) []metav1.ManagedFieldsEntry {
	if len(entries) == 0 {
		return nil
	}
	fields := make([]metav1.ManagedFieldsEntry, len(entries))
	sets := make([]metav1.FieldsV1, len(entries))
	for i := range entries {
		have := &entries[i]
		if have.changed {
			sets[i].SetRawBytes(e.encode(have.nodes))
		} else {
			sets[i].SetRawBytes(have.set.text)
		}
		fields[i] = metav1.ManagedFieldsEntry{
			Manager: have.manager, Operation: have.operation, APIVersion: k.apiVersion, Time: have.time,
			FieldsType: "FieldsV1", FieldsV1: &sets[i], Subresource: have.subresource,
		}
	}
	slices.SortStableFunc(fields, compareEntries)
	return fields
}

func compareEntries(a, b metav1.ManagedFieldsEntry) int {
	return cmp.Or(
		cmp.Compare(a.Operation, b.Operation),
		cmp.Compare(seconds(a.Time), seconds(b.Time)),
		cmp.Compare(a.Manager, b.Manager),
		cmp.Compare(a.Subresource, b.Subresource),
	)
}

func seconds(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}

func (k *Kind) now() *metav1.Time { return &metav1.Time{Time: k.simulation.Now().UTC()} }
