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

// snapshot contains all definitions at a point in time. It is immutable: a change copies the paths
// of two trees to the changed entry, so its cost does not depend on the number of definitions.
type snapshot struct {
	generation uint64
	// entries are in order of groups, and in each of plurals; claims the names
	// that were given.
	entries *btree.BTreeG[*entry]
	claims  *btree.BTreeG[claim]
}

// claim is a name assigned to a definition. Resources and kinds have separate name spaces.
type claim struct {
	group  string
	ofKind bool
	name   string
	owner  string // the definition
}

func newSnapshot() *snapshot {
	options := btree.Options{NoLocks: true, Degree: 16}
	return &snapshot{
		entries: btree.NewBTreeGOptions(func(a, b *entry) bool {
			return a.group < b.group || a.group == b.group && a.requested.plural < b.requested.plural
		}, options),
		claims: btree.NewBTreeGOptions(func(a, b claim) bool { return compareClaims(&a, &b) < 0 }, options),
	}
}

func compareClaims(a, b *claim) int {
	if a.ofKind != b.ofKind {
		if b.ofKind {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.name, b.name), cmp.Compare(a.owner, b.owner))
}

func (s *snapshot) find(group, plural string) *entry {
	found, _ := s.entries.Get(&entry{group: group, requested: names{plural: plural}})
	return found
}

// named returns the entry of a definition.
func (s *snapshot) named(name string) *entry {
	plural, group, _ := strings.Cut(name, ".") // as all definitions are named
	return s.find(group, plural)
}

// with returns a snapshot with e as the definition of a name, or without a definition if e is nil.
// Only one goroutine at a time may derive snapshots.
func (s *snapshot) with(group, plural string, e *entry) *snapshot {
	next := &snapshot{generation: s.generation + 1, entries: s.entries.Copy(), claims: s.claims}
	var old *entry
	if e != nil {
		old, _ = next.entries.Set(e)
	} else {
		old, _ = next.entries.Delete(&entry{group: group, requested: names{plural: plural}})
	}
	if old != nil && e != nil && old.reservedNames().equal(e.reservedNames()) {
		return next
	}
	next.claims = s.claims.Copy()
	for c := range old.claims() {
		next.claims.Delete(c)
	}
	for c := range e.claims() {
		next.claims.Set(c)
	}
	return next
}

// claims are the names that a definition was given.
func (e *entry) claims() iter.Seq[claim] {
	return func(yield func(claim) bool) {
		if e == nil {
			return
		}
		given := e.reservedNames()
		for _, name := range append([]string{given.plural, given.singular}, given.shortNames...) {
			if name != "" && !yield(claim{e.group, false, name, e.name}) {
				return
			}
		}
		for _, name := range []string{given.kind, given.listKind} {
			if name != "" && !yield(claim{e.group, true, name, e.name}) {
				return
			}
		}
	}
}

// all yields all entries, in order.
func (s *snapshot) all() iter.Seq[*entry] { return s.entries.Scan }

// group yields the entries of a group in order of their plurals.
func (s *snapshot) group(name string) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		s.entries.Ascend(&entry{group: name}, func(e *entry) bool { return e.group == name && yield(e) })
	}
}

// groups yields the entries of each group.
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

// restGroup returns the discovery information of a group. Its entries are sorted.
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
