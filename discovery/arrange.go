package discovery

import (
	"cmp"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/version"

	"mainstay.dev/mainstay/rest"
)

// Registry knows what other servers answer for, and what comes first. It is safe
// for concurrent use.
type Registry interface {
	// Remotes returns what other servers say of their group versions; nothing
	// of it may be changed.
	Remotes() map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery
	// Priority orders: groups by the highest of their versions, versions by
	// their own. More comes first.
	Priority(gv schema.GroupVersion) (group, version int32)
	// Generation grows with every change of what the others return.
	Generation() uint64
}

// group is a group as it is shown, versions in order of preference.
type group struct {
	name     string
	versions []version
	priority int32 // the highest of its versions
}

// version is a version of a group: what this server has in it, or, where remote
// is set, what another one says.
type version struct {
	rest.Version
	remote   *apidiscovery.APIVersionDiscovery
	priority int32
}

// groups are all that is served, in order of preference.
func (h *Handler) groups() []group {
	own := h.catalog.Groups()
	all := make([]group, 0, len(own))
	if h.registry == nil {
		for _, g := range own {
			all = append(all, h.arranged(g, nil))
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
		all = append(all, h.arranged(g, others[g.Name]))
		delete(others, g.Name)
	}
	for name, remotes := range others {
		all = append(all, h.arranged(rest.Group{Name: name}, remotes))
	}
	slices.SortStableFunc(all, func(a, b group) int {
		if first := cmp.Compare(rank(a.name), rank(b.name)); first != 0 {
			return first
		}
		return cmp.Or(cmp.Compare(b.priority, a.priority), strings.Compare(a.name, b.name))
	})
	return all
}

// rank puts before all others the group that tells where groups are served.
func rank(group string) int {
	switch group {
	case "":
		return 0
	case "apiregistration.k8s.io":
		return 1
	}
	return 2
}

// group returns one group, false where nobody has it.
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
	return h.arranged(own, remotes), found || len(remotes) > 0
}

// arranged puts the versions of a group in order, those of other servers among
// them.
func (h *Handler) arranged(own rest.Group, remotes map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery) group {
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

// generation tells states of what is shown apart.
func (h *Handler) generation() uint64 {
	if h.registry == nil {
		return h.catalog.Generation()
	}
	return h.catalog.Generation() + h.registry.Generation()
}
