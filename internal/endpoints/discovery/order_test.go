package discovery_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/endpoints/discovery"
	"mainstay.dev/mainstay/internal/endpoints/route"
)

// registered is a registry with fixed group versions of other servers.
type registered struct {
	remotes    map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery
	priorities map[schema.GroupVersion][2]int32
	generation uint64
}

func (r *registered) Remotes() map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery {
	remotes := map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery{}
	for gv, remote := range r.remotes {
		remotes[gv] = remote
	}
	return remotes
}

func (r *registered) Priority(gv schema.GroupVersion) (group, version int32) {
	if p, ok := r.priorities[gv]; ok {
		return p[0], p[1]
	}
	return 1000, 100
}

func (r *registered) Generation() uint64 { return r.generation }

// TestAggregatedServers checks that all documents list group versions of other servers and of this server
// together, sorted by priority.
func TestAggregatedServers(t *testing.T) {
	t.Parallel()
	remote := func(version string) *apidiscovery.APIVersionDiscovery {
		return &apidiscovery.APIVersionDiscovery{Version: version, Freshness: apidiscovery.DiscoveryFreshnessStale}
	}
	registry := &registered{
		remotes: map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery{
			{Group: "zoo.example.com", Version: "v1"}: remote("v1"), {Group: "zoo.example.com", Version: "v1beta1"}: remote("v1beta1"),
			{Group: "zoo.example.com", Version: "v2"}: remote("v2"), {Group: "example.com", Version: "v1"}: remote("v1"),
		},
		priorities: map[schema.GroupVersion][2]int32{
			{Group: "apps", Version: "v1"}: {17800, 15}, {Group: "zoo.example.com", Version: "v1beta1"}: {18000, 200},
		},
	}
	h := discovery.NewHandler(route.NewCatalog(route.NewStatic(resources())), registry)
	type shown struct {
		Name     string
		Versions []string
	}
	var plain metav1.APIGroupList
	if err := json.Unmarshal(get(h, "/apis").Body.Bytes(), &plain); err != nil {
		t.Fatal(err)
	}
	var groups []shown
	for _, g := range plain.Groups {
		s := shown{Name: g.Name}
		for _, v := range g.Versions {
			s.Versions = append(s.Versions, v.Version)
		}
		groups = append(groups, s)
	}
	first := shown{"zoo.example.com", []string{"v1beta1", "v2", "v1"}}
	if diff := cmp.Diff(first, groups[0]); diff != "" {
		t.Errorf("the first group (-want +got):\n%s", diff)
	}
	answer := get(h, "/apis", "Accept", aggregatedV2)
	var aggregated apidiscovery.APIGroupDiscoveryList
	if err := json.Unmarshal(answer.Body.Bytes(), &aggregated); err != nil {
		t.Fatal(err)
	}
	var all []shown
	for _, g := range aggregated.Items {
		s := shown{Name: g.Name}
		for _, v := range g.Versions {
			s.Versions = append(s.Versions, v.Version)
			theirs := registry.remotes[schema.GroupVersion{Group: g.Name, Version: v.Version}] != nil
			if stale := v.Freshness == apidiscovery.DiscoveryFreshnessStale; stale != theirs {
				t.Errorf("%s/%s is %s", g.Name, v.Version, v.Freshness)
			}
		}
		all = append(all, s)
	}
	if diff := cmp.Diff(groups, all); diff != "" {
		t.Errorf("aggregated and plain differ (-plain +aggregated):\n%s", diff)
	}
	var group metav1.APIGroup
	if err := json.Unmarshal(get(h, "/apis/zoo.example.com").Body.Bytes(), &group); err != nil || group.PreferredVersion.Version != "v1beta1" {
		t.Errorf("group zoo.example.com: error %v, %+v, want the preferred version v1beta1", err, group)
	}
	registry.generation++
	registry.remotes = nil
	if again := get(h, "/apis", "Accept", aggregatedV2); again.Header().Get("ETag") == answer.Header().Get("ETag") {
		t.Error("the ETag does not change with the registry")
	}
	if code := get(h, "/apis/zoo.example.com").Code; code != 404 {
		t.Errorf("a group that does not exist: %d", code)
	}
}
