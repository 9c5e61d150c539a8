// Package route knows who answers for what. The Catalog is a list of sources
// in the order asked (aggregated, built-in, custom); the first that has a
// resource answers for it. There is no router: the grammar of API paths is
// regular, and has been read once before (package request).
//
// Imports: endpoints, request, rest.
package route

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/rest"
)

// Source has resources. It is safe for concurrent use; what it returns is
// immutable.
type Source interface {
	// Find returns a resource or subresource, nil when the source has none.
	Find(gv schema.GroupVersion, name, subresource string) *rest.Resource
	// Groups returns all there is, groups and their versions in order of
	// preference, resources in order of their names.
	Groups() []Group
}

// Group is an API group.
type Group struct {
	Name     string
	Versions []Version
}

// Version is a version of an API group.
type Version struct {
	GroupVersion schema.GroupVersion
	Resources    []*rest.Resource
}

// Catalog is all that a server answers for. It is a Source itself.
type Catalog struct{ sources []Source }

// NewCatalog returns a catalogue that asks the sources in order.
func NewCatalog(sources ...Source) *Catalog { return &Catalog{sources} }

// Find implements Source.
func (c *Catalog) Find(gv schema.GroupVersion, name, subresource string) *rest.Resource {
	for _, s := range c.sources {
		if r := s.Find(gv, name, subresource); r != nil {
			return r
		}
	}
	return nil
}

// Groups implements Source. A group that several sources have stands where the
// first has it, with the versions of all.
func (c *Catalog) Groups() []Group {
	var groups []Group
	for _, s := range c.sources {
		for _, g := range s.Groups() {
			i := slices.IndexFunc(groups, func(have Group) bool { return have.Name == g.Name })
			if i < 0 {
				groups = append(groups, g)
				continue
			}
			groups[i].Versions = append(slices.Clip(groups[i].Versions), g.Versions...)
		}
	}
	return groups
}

// HasGroup tells whether any version of a group is served.
func (c *Catalog) HasGroup(name string) bool {
	return slices.ContainsFunc(c.Groups(), func(g Group) bool { return g.Name == name })
}

// Static is a source of resources that do not change.
type Static struct {
	groups []Group
	byName map[key]*rest.Resource
}

type key struct {
	gv                schema.GroupVersion
	name, subresource string
}

// NewStatic returns a source of resources, whose groups and versions keep the
// order they have.
func NewStatic(resources []*rest.Resource) *Static {
	s := &Static{byName: make(map[key]*rest.Resource, len(resources))}
	for _, r := range resources {
		s.byName[key{r.GroupVersion, r.Name, r.Subresource}] = r
		s.add(r)
	}
	for _, g := range s.groups {
		for _, v := range g.Versions {
			slices.SortStableFunc(v.Resources, func(a, b *rest.Resource) int {
				return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Subresource, b.Subresource))
			})
		}
	}
	return s
}

func (s *Static) add(r *rest.Resource) {
	g := slices.IndexFunc(s.groups, func(g Group) bool { return g.Name == r.GroupVersion.Group })
	if g < 0 {
		g = len(s.groups)
		s.groups = append(s.groups, Group{Name: r.GroupVersion.Group})
	}
	group := &s.groups[g]
	v := slices.IndexFunc(group.Versions, func(v Version) bool { return v.GroupVersion == r.GroupVersion })
	if v < 0 {
		v = len(group.Versions)
		group.Versions = append(group.Versions, Version{GroupVersion: r.GroupVersion})
	}
	group.Versions[v].Resources = append(group.Versions[v].Resources, r)
}

// Find implements Source.
func (s *Static) Find(gv schema.GroupVersion, name, subresource string) *rest.Resource {
	return s.byName[key{gv, name, subresource}]
}

// Groups implements Source.
func (s *Static) Groups() []Group { return s.groups }
