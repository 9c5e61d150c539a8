package e2e

import (
	"slices"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/restmapper"
)

var discovering = []clientBehavior{
	{"finds groups and resources in one request", discoverAggregated},
	{"finds groups and resources with separate requests", discoverLegacy},
	{"maps kinds to resources", discoverMapping},
	{"reads OpenAPI v2", discoverOpenAPIv2},
	{"reads OpenAPI v3", discoverOpenAPIv3},
	{"reads the version", discoverVersion},
	{"prefers stable versions", discoverPreferred},
}

// resourceNames returns the names of all discovered resources, in the form group/version/resource.
func resourceNames(lists []*metav1.APIResourceList) []string {
	var names []string
	for _, list := range lists {
		for _, r := range list.APIResources {
			names = append(names, list.GroupVersion+"/"+r.Name)
		}
	}
	slices.Sort(names)
	return names
}

func discoverAggregated(t *testing.T, c *clients) {
	client := discovery.NewDiscoveryClientForConfigOrDie(c.config)
	groups, resources, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	names := resourceNames(resources)
	for _, want := range []string{"v1/pods", "v1/pods/status", "apps/v1/deployments/scale", "autoscaling/v1/horizontalpodautoscalers", "coordination.k8s.io/v1/leases"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not discovered", want)
		}
	}
	if len(groups) < 15 || groups[0].Name != "" {
		t.Errorf("%d groups, the first is %q", len(groups), groups[0].Name)
	}
}

func discoverLegacy(t *testing.T, c *clients) {
	client := discovery.NewDiscoveryClientForConfigOrDie(c.config)
	_, aggregated, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	legacy := discovery.NewDiscoveryClientForConfigOrDie(c.config)
	legacy.UseLegacyDiscovery = true
	_, plain, err := legacy.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := resourceNames(aggregated), resourceNames(plain); !slices.Equal(got, want) {
		t.Errorf("aggregated discovery shows\n%s\nthe old one\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func discoverMapping(t *testing.T, c *clients) {
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(c.config)))
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	if err != nil {
		t.Fatal(err)
	}
	if mapping.Resource != deploymentsResource || mapping.Scope.Name() != "namespace" {
		t.Errorf("got %v, %s", mapping.Resource, mapping.Scope.Name())
	}
	kind, err := mapper.KindFor(schema.GroupVersionResource{Resource: "hpa"})
	if err == nil {
		t.Errorf("the plain mapper knows the short name: %v", kind)
	}
	expander := restmapper.NewShortcutExpander(mapper, memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(c.config)), nil)
	if kind, err = expander.KindFor(schema.GroupVersionResource{Resource: "hpa"}); err != nil || kind.Kind != "HorizontalPodAutoscaler" || kind.Version != "v2" {
		t.Errorf("hpa is %v (%v)", kind, err)
	}
}

func discoverOpenAPIv2(t *testing.T, c *clients) {
	document := must[*openapi_v2.Document](t)(discovery.NewDiscoveryClientForConfigOrDie(c.config).OpenAPISchema())
	found := 0
	for _, definition := range document.Definitions.AdditionalProperties {
		if definition.Name == "io.k8s.api.core.v1.Pod" || definition.Name == "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" {
			found++
		}
	}
	if found != 2 {
		t.Errorf("%d of 2 definitions among %d", found, len(document.Definitions.AdditionalProperties))
	}
}

func discoverOpenAPIv3(t *testing.T, c *clients) {
	paths := must[map[string]openapi.GroupVersion](t)(discovery.NewDiscoveryClientForConfigOrDie(c.config).OpenAPIV3().Paths())
	for _, path := range []string{"api/v1", "apis/apps/v1", "version"} {
		if paths[path] == nil {
			t.Errorf("no document for %s", path)
			continue
		}
		if raw, err := paths[path].Schema("application/json"); err != nil || !strings.Contains(string(raw), `"openapi":"3.0.0"`) {
			t.Errorf("%s: %v, %d bytes", path, err, len(raw))
		}
	}
}

func discoverVersion(t *testing.T, c *clients) {
	v := must[*version.Info](t)(c.kube.Discovery().ServerVersion())
	if v.Major != "1" || !strings.HasPrefix(v.GitVersion, "v1.3") || !strings.HasPrefix(v.GoVersion, "go1.") || v.Platform == "" {
		t.Errorf("got %+v", v)
	}
}

func discoverPreferred(t *testing.T, c *clients) {
	lists := must[[]*metav1.APIResourceList](t)(c.kube.Discovery().ServerPreferredResources())
	for _, list := range lists {
		for _, r := range list.APIResources {
			if r.Name == "horizontalpodautoscalers" && list.GroupVersion != "autoscaling/v2" {
				t.Errorf("horizontalpodautoscalers of %s are preferred", list.GroupVersion)
			}
		}
	}
	namespaced := discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists)
	if len(namespaced) < 10 {
		t.Errorf("%d groups have something to delete", len(namespaced))
	}
}
