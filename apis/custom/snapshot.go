package custom

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"mainstay.dev/mainstay/rest"
)

// snapshot is all definitions at a time. It is immutable: a change copies the
// list of groups and the one group that changes.
type snapshot struct {
	generation uint64
	groups     map[string]*group
}

// group is the definitions of an API group, by their plurals.
type group struct{ entries map[string]*entry }

func newSnapshot() *snapshot { return &snapshot{groups: map[string]*group{}} }

func (s *snapshot) find(groupName, plural string) *entry {
	if g := s.groups[groupName]; g != nil {
		return g.entries[plural]
	}
	return nil
}

// with returns a snapshot in which the definition of a name is another one, or
// gone where e is nil.
func (s *snapshot) with(groupName, plural string, e *entry) *snapshot {
	next := &snapshot{generation: s.generation + 1, groups: maps.Clone(s.groups)}
	changed := &group{entries: map[string]*entry{}}
	if g := next.groups[groupName]; g != nil {
		changed.entries = maps.Clone(g.entries)
	}
	if e != nil {
		changed.entries[plural] = e
	} else {
		delete(changed.entries, plural)
	}
	if len(changed.entries) == 0 {
		delete(next.groups, groupName)
	} else {
		next.groups[groupName] = changed
	}
	return next
}

// each yields the served entries of a group in order of their plurals.
func (g *group) served() []*entry {
	var served []*entry
	for _, e := range g.entries {
		if e.isServed() {
			served = append(served, e)
		}
	}
	slices.SortFunc(served, func(a, b *entry) int { return cmp.Compare(a.wanted.plural, b.wanted.plural) })
	return served
}

// restGroup makes what discovery shows of a group.
func (g *group) restGroup(name string) (rest.Group, bool) {
	byVersion := map[string][]*rest.Resource{}
	for _, e := range g.served() {
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
