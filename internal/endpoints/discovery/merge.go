package discovery

import (
	"slices"

	apidiscovery "k8s.io/api/apidiscovery/v2"
)

// Peers are the other servers of the same cluster, which may serve resources that this server
// lacks. Implementations must be safe for concurrent use and must not block.
type Peers interface {
	// Groups returns the aggregated discovery of each server, without the core group. The result is
	// shared and must not be modified.
	Groups() [][]apidiscovery.APIGroupDiscovery
	// Generation increases with every change of Groups.
	Generation() uint64
}

// merge adds the groups, versions and resources of other servers to own. Resources of this server are
// unchanged, because it serves them.
func merge(own []apidiscovery.APIGroupDiscovery, others [][]apidiscovery.APIGroupDiscovery) []apidiscovery.APIGroupDiscovery {
	for _, other := range others {
		own = mergeList(own, other, func(g *apidiscovery.APIGroupDiscovery) string { return g.Name }, mergeGroup)
	}
	return own
}

func mergeGroup(own, other *apidiscovery.APIGroupDiscovery) {
	own.Versions = mergeList(own.Versions, other.Versions, func(v *apidiscovery.APIVersionDiscovery) string { return v.Version }, mergeVersion)
}

func mergeVersion(own, other *apidiscovery.APIVersionDiscovery) {
	own.Resources = mergeList(own.Resources, other.Resources, func(r *apidiscovery.APIResourceDiscovery) string { return r.Resource },
		func(_, _ *apidiscovery.APIResourceDiscovery) {})
}

// mergeList returns own with the missing items of other inserted. Each item follows its predecessor in
// other, which preserves both orders if they agree. mergeList calls both for common items.
func mergeList[T any](own, other []T, name func(*T) string, both func(own, other *T)) []T {
	merged := slices.Clone(own)
	next := 0
	for i := range other {
		at := slices.IndexFunc(merged, func(t T) bool { return name(&t) == name(&other[i]) })
		if at < 0 {
			at = next
			merged = slices.Insert(merged, at, other[i])
		} else {
			both(&merged[at], &other[i])
		}
		next = at + 1
	}
	return merged
}
