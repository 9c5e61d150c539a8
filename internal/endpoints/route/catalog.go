// Package route selects the destination of a request and dispatches the request to it.
//
// The Catalog contains the resources of a control plane, which come from several sources (built-in and
// custom). If several sources have a resource, the first one serves it. There is no pattern matching:
// package request parses the path, and resources are looked up by the names in it.
//
// A request is resolved once. filters.RequestInfo calls Handler.Resolve after parsing, and records the Route
// in the context. The Route classifies the request as long-running, and determines its metric labels and its
// estimated cost. After authorization, Handler.ServeHTTP dispatches the request with the same Route; it
// resolves the request again only if resources have changed since. The responses of filters before
// authorization do not depend on the Route, so a user without permission cannot determine from the status
// whether a resource exists.
package route

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// Source is a set of resources. It is safe for concurrent use. Results are shared and must not be
// modified.
type Source interface {
	// Find returns a resource or subresource, or nil if the source does not contain it.
	Find(gv schema.GroupVersion, name, subresource string) *rest.Resource
	// Groups returns all groups. Groups and versions are in order of preference, and resources are sorted
	// by name. The result describes the resources; only the results of Find serve requests.
	Groups() []rest.Group
	// Group returns one group without building the other groups, or false if the group does not exist.
	Group(name string) (rest.Group, bool)
	// Generation increases with every change of the source.
	Generation() uint64
}

// Catalog contains all resources of a control plane, from several sources. It implements Source and
// is safe for concurrent use.
type Catalog struct{ sources []Source }

// NewCatalog returns a Catalog that searches the sources in the given order. It retains the slice.
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

// Equivalents returns the resources that serve the objects of r: r itself in all its versions and, for
// kinds in several groups, the resources of the other groups. They are in the order of the kind's versions.
// For a subresource, Equivalents returns the subresources with the same name. The result is empty if r is
// no longer served or not stored.
func (c *Catalog) Equivalents(r *rest.Resource) []*rest.Resource {
	parent := r
	if r.Subresource != "" {
		parent = c.Find(r.GroupVersion, r.Name, "")
	}
	if parent == nil || parent.Kind == nil {
		return nil
	}
	versions := parent.Kind.Versions
	if len(versions) == 0 {
		versions = []*codec.Version{parent.Kind.Hub}
	}
	var all []*rest.Resource
	for _, v := range versions {
		if found := c.Find(v.GVK.GroupVersion(), r.Name, r.Subresource); found != nil {
			all = append(all, found)
		}
	}
	return all
}

// Groups implements Source. A group that several sources have is at its position in the first of these
// sources, and contains the versions of all of them.
func (c *Catalog) Groups() []rest.Group {
	var groups []rest.Group
	places := map[string]int{}
	for _, s := range c.sources {
		for _, g := range s.Groups() {
			if i, found := places[g.Name]; found {
				groups[i] = mergeGroups(groups[i], g)
				continue
			}
			places[g.Name] = len(groups)
			groups = append(groups, g)
		}
	}
	return groups
}

// Group implements Source.
func (c *Catalog) Group(name string) (rest.Group, bool) {
	var group rest.Group
	found := false
	for _, s := range c.sources {
		if g, ok := s.Group(name); ok && found {
			group = mergeGroups(group, g)
		} else if ok {
			group, found = g, true
		}
	}
	return group, found
}

// mergeGroups adds the resources of a later source to a group.
func mergeGroups(group, later rest.Group) rest.Group {
	versions := slices.Clone(group.Versions)
	for _, v := range later.Versions {
		i := slices.IndexFunc(versions, func(have rest.Version) bool { return have.GroupVersion == v.GroupVersion })
		if i < 0 {
			versions = append(versions, v)
			continue
		}
		versions[i].Resources = slices.Clone(versions[i].Resources)
		for _, r := range v.Resources {
			if !slices.ContainsFunc(versions[i].Resources, func(have *rest.Resource) bool { return have.Name == r.Name && have.Subresource == r.Subresource }) {
				versions[i].Resources = append(versions[i].Resources, r)
			}
		}
		sortByName(versions[i].Resources)
	}
	return rest.Group{Name: group.Name, Versions: versions}
}

// Generation implements Source.
func (c *Catalog) Generation() uint64 {
	sum := uint64(0)
	for _, s := range c.sources {
		sum += s.Generation()
	}
	return sum
}

// HasStaticGroup reports whether a Static source contains a group, so that the group is always
// served.
func (c *Catalog) HasStaticGroup(name string) bool {
	return slices.ContainsFunc(c.sources, func(s Source) bool {
		static, ok := s.(*Static)
		if !ok {
			return false
		}
		_, found := static.Group(name)
		return found
	})
}

// Static is a Source of resources that do not change. It is safe for concurrent use.
type Static struct {
	groups []rest.Group
	byName map[key]*rest.Resource
	open   func(*rest.Resource) *rest.Resource // replaces the results of Find; may be nil
}

type key struct {
	gv                schema.GroupVersion
	name, subresource string
}

// NewStatic returns a source of resources. Groups and versions have the order of their first
// resources. The resources are retained and must not be modified.
func NewStatic(resources []*rest.Resource) *Static {
	s := &Static{byName: make(map[key]*rest.Resource, len(resources))}
	for _, r := range resources {
		s.byName[key{r.GroupVersion, r.Name, r.Subresource}] = r
		s.add(r)
	}
	for _, g := range s.groups {
		for _, v := range g.Versions {
			sortByName(v.Resources)
		}
	}
	return s
}

// Opening returns a source with the same resources. Its Find calls open for each resource that it finds and
// returns the result. It shares the memory of s.
func (s *Static) Opening(open func(*rest.Resource) *rest.Resource) *Static {
	return &Static{groups: s.groups, byName: s.byName, open: open}
}

func (s *Static) add(r *rest.Resource) {
	g := slices.IndexFunc(s.groups, func(g rest.Group) bool { return g.Name == r.GroupVersion.Group })
	if g < 0 {
		g = len(s.groups)
		s.groups = append(s.groups, rest.Group{Name: r.GroupVersion.Group})
	}
	group := &s.groups[g]
	v := slices.IndexFunc(group.Versions, func(v rest.Version) bool { return v.GroupVersion == r.GroupVersion })
	if v < 0 {
		v = len(group.Versions)
		group.Versions = append(group.Versions, rest.Version{GroupVersion: r.GroupVersion})
	}
	group.Versions[v].Resources = append(group.Versions[v].Resources, r)
}

// Find implements Source.
func (s *Static) Find(gv schema.GroupVersion, name, subresource string) *rest.Resource {
	r := s.byName[key{gv, name, subresource}]
	if r == nil || s.open == nil {
		return r
	}
	return s.open(r)
}

// Has reports whether the source contains a resource. It does not call the open function of Opening.
func (s *Static) Has(gv schema.GroupVersion, name string) bool {
	return s.byName[key{gv, name, ""}] != nil
}

// Groups implements Source.
func (s *Static) Groups() []rest.Group { return s.groups }

// Group implements Source.
func (s *Static) Group(name string) (rest.Group, bool) {
	i := slices.IndexFunc(s.groups, func(g rest.Group) bool { return g.Name == name })
	if i < 0 {
		return rest.Group{}, false
	}
	return s.groups[i], true
}

// Generation implements Source.
func (s *Static) Generation() uint64 { return 0 }

func sortByName(resources []*rest.Resource) {
	slices.SortStableFunc(resources, func(a, b *rest.Resource) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Subresource, b.Subresource))
	})
}
