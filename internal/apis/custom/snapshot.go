package custom

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"mainstay.dev/mainstay/internal/rest"
)

// snapshot contains the entries of all definitions at a point in time. It is immutable. A change copies
// only the tree nodes on the path to the changed entry, so that its cost grows with the logarithm of
// the number of definitions.
type snapshot struct {
	// generation increases with every change to discovery.
	generation uint64
	// entries is sorted by group, then by plural name.
	entries *btree.BTreeG[*entry]
	// reservations contains the reserved names of all entries.
	reservations *btree.BTreeG[reservation]
}

// reservation is a name that belongs to a definition. Within a group, names of resources (plural,
// singular and short names) are unique, and so are names of kinds (kind and list kind).
type reservation struct {
	group  string
	isKind bool
	name   string
	owner  string // name of the definition
}

func newSnapshot() *snapshot {
	options := btree.Options{NoLocks: true, Degree: 16}
	return &snapshot{
		entries: btree.NewBTreeGOptions(func(a, b *entry) bool {
			return a.group < b.group || a.group == b.group && a.requested.plural < b.requested.plural
		}, options),
		reservations: btree.NewBTreeGOptions(func(a, b reservation) bool { return compareReservations(&a, &b) < 0 }, options),
	}
}

func compareReservations(a, b *reservation) int {
	if a.isKind != b.isKind {
		if b.isKind {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.name, b.name), cmp.Compare(a.owner, b.owner))
}

// find returns the entry of a resource, or nil.
func (s *snapshot) find(group, plural string) *entry {
	found, _ := s.entries.Get(&entry{group: group, requested: names{plural: plural}})
	return found
}

// named returns the entry of a definition, or nil.
func (s *snapshot) named(name string) *entry {
	plural, group, _ := strings.Cut(name, ".") // validation requires names of this form
	return s.find(group, plural)
}

// with returns a snapshot with e as the entry of a resource, or without an entry if e is nil. Source.mu
// must be held, because only the newest snapshot may be copied.
func (s *snapshot) with(group, plural string, e *entry) *snapshot {
	next := &snapshot{generation: s.generation + 1, entries: s.entries.Copy(), reservations: s.reservations}
	var old *entry
	if e != nil {
		old, _ = next.entries.Set(e)
	} else {
		old, _ = next.entries.Delete(&entry{group: group, requested: names{plural: plural}})
	}
	if old != nil && e != nil && old.reservedNames().equal(e.reservedNames()) {
		return next
	}
	next.reservations = s.reservations.Copy()
	for r := range old.reservations() {
		next.reservations.Delete(r)
	}
	for r := range e.reservations() {
		next.reservations.Set(r)
	}
	return next
}

// reservations yields the reserved names of a definition. e may be nil.
func (e *entry) reservations() iter.Seq[reservation] {
	return func(yield func(reservation) bool) {
		if e == nil {
			return
		}
		n := e.reservedNames()
		for _, name := range append([]string{n.plural, n.singular}, n.shortNames...) {
			if name != "" && !yield(reservation{e.group, false, name, e.name}) {
				return
			}
		}
		for _, name := range []string{n.kind, n.listKind} {
			if name != "" && !yield(reservation{e.group, true, name, e.name}) {
				return
			}
		}
	}
}

// all yields all entries, sorted by group and plural name.
func (s *snapshot) all() iter.Seq[*entry] { return s.entries.Scan }

// group yields the entries of a group, sorted by plural name.
func (s *snapshot) group(name string) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		s.entries.Ascend(&entry{group: name}, func(e *entry) bool { return e.group == name && yield(e) })
	}
}

// groups yields the entries of each group. The slice is valid only until the next iteration.
func (s *snapshot) groups() iter.Seq2[string, []*entry] {
	return func(yield func(string, []*entry) bool) {
		var entries []*entry
		for e := range s.all() {
			if len(entries) > 0 && entries[0].group != e.group {
				if !yield(entries[0].group, entries) {
					return
				}
				entries = entries[:0]
			}
			entries = append(entries, e)
		}
		if len(entries) > 0 {
			yield(entries[0].group, entries)
		}
	}
}

// restGroup returns the discovery information of a group with these entries, or false if none of them
// is in discovery.
func restGroup(name string, entries []*entry) (rest.Group, bool) {
	byVersion := map[string][]*rest.Resource{}
	for _, e := range entries {
		if !e.isDiscovered() {
			continue
		}
		for i := range e.versions {
			if v := &e.versions[i]; v.served {
				byVersion[v.name] = append(byVersion[v.name], e.describe(v)...)
			}
		}
	}
	order := slices.SortedFunc(maps.Keys(byVersion), func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	out := rest.Group{Name: name}
	for _, v := range order {
		out.Versions = append(out.Versions, rest.Version{GroupVersion: schema.GroupVersion{Group: name, Version: v}, Resources: byVersion[v]})
	}
	return out, len(order) > 0
}
