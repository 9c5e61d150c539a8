package discovery

import (
	"slices"

	apidiscovery "k8s.io/api/apidiscovery/v2"
)

// Peers are the other servers over the same store, to which requests for what this one
// does not have are sent on.
type Peers interface {
	// Groups returns the discovery of each, without the core group. It is not changed.
	Groups() [][]apidiscovery.APIGroupDiscovery
	// Generation grows with each change of Groups.
	Generation() uint64
}

// merge adds the groups, versions and resources that only other servers have. What this
// server has stays as it is: requests for that are answered here.
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

// mergeList inserts what is missing behind what it follows in the other list, so that the
// order of both is kept where they agree, and calls both for what is in both.
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
