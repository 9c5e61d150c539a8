package discovery

import (
	"cmp"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/version"

	"mainstay.dev/mainstay/internal/rest"
)

// Registry returns the discovery of aggregated servers, and the priorities of group
// versions. It must be safe for concurrent use.
type Registry interface {
	// Remotes returns the discovery of the aggregated group versions. The caller owns the map; its
	// values are shared and must not be modified.
	Remotes() map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery
	// Priority returns the priorities of a group version. Groups are sorted by the highest group priority of
	// their versions, and the versions of a group by their version priority, both in descending order.
	Priority(gv schema.GroupVersion) (group, version int32)
	// Generation increases with every change of the results of the other methods.
	Generation() uint64
}

// group is a group with its versions in order of preference.
type group struct {
	name     string
	versions []version
	priority int32 // the highest group priority of its versions
}

// version is a version of a group, with the resources of this server or, if remote is set, of an
// aggregated server.
type version struct {
	rest.Version
	remote   *apidiscovery.APIVersionDiscovery
	priority int32
}

// groups returns all groups in order of preference.
func (h *Handler) groups() []group {
	own := h.catalog.Groups()
	all := make([]group, 0, len(own))
	if h.registry == nil {
		for _, g := range own {
			all = append(all, h.mergeVersions(g, nil))
		}
		return all
	}
	others := map[string]map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery{}
	for gv, remote := range h.registry.Remotes() {
		if others[gv.Group] == nil {
			others[gv.Group] = map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery{}
		}
		others[gv.Group][gv] = remote
	}
	for _, g := range own {
		all = append(all, h.mergeVersions(g, others[g.Name]))
		delete(others, g.Name)
	}
	for name, remotes := range others {
		all = append(all, h.mergeVersions(rest.Group{Name: name}, remotes))
	}
	slices.SortStableFunc(all, func(a, b group) int {
		if first := cmp.Compare(groupRank(a.name), groupRank(b.name)); first != 0 {
			return first
		}
		return cmp.Or(cmp.Compare(b.priority, a.priority), strings.Compare(a.name, b.name))
	})
	return all
}

// groupRank sorts apiregistration.k8s.io before all other groups.
func groupRank(group string) int {
	switch group {
	case "":
		return 0
	case "apiregistration.k8s.io":
		return 1
	}
	return 2
}

// group returns the named group, or false if it does not exist.
func (h *Handler) group(name string) (group, bool) {
	own, found := h.catalog.Group(name)
	own.Name = name
	var remotes map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery
	if h.registry != nil {
		remotes = h.registry.Remotes()
		for gv := range remotes {
			if gv.Group != name {
				delete(remotes, gv)
			}
		}
	}
	return h.mergeVersions(own, remotes), found || len(remotes) > 0
}

// mergeVersions returns a group with its own versions and the versions of aggregated servers, in
// order of preference.
func (h *Handler) mergeVersions(own rest.Group, remotes map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery) group {
	g := group{name: own.Name, versions: make([]version, 0, len(own.Versions)+len(remotes))}
	for _, v := range own.Versions {
		if remotes[v.GroupVersion] == nil {
			g.versions = append(g.versions, version{Version: v})
		}
	}
	for gv, remote := range remotes {
		g.versions = append(g.versions, version{Version: rest.Version{GroupVersion: gv}, remote: remote})
	}
	if h.registry == nil {
		return g
	}
	for i := range g.versions {
		v := &g.versions[i]
		var priority int32
		priority, v.priority = h.registry.Priority(v.GroupVersion)
		g.priority = max(g.priority, priority)
	}
	slices.SortStableFunc(g.versions, func(a, b version) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), utilversion.CompareKubeAwareVersionStrings(b.GroupVersion.Version, a.GroupVersion.Version))
	})
	return g
}

// generation increases with every change of the documents, except those of peers.
func (h *Handler) generation() uint64 {
	if h.registry == nil {
		return h.catalog.Generation()
	}
	return h.catalog.Generation() + h.registry.Generation()
}
