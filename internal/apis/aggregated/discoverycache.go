package aggregated

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"reflect"
	"strings"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// discoveryCache contains the discovery of an aggregated server. server.mu guards it.
type discoveryCache struct {
	// checked is the time of the server's last response to a discovery request.
	checked time.Time
	// groups contains the aggregated discovery by group version. It is nil if the server does not support
	// aggregated discovery. etag is the ETag of that response.
	groups    map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery
	etag      string
	openAPIV3 v3Index
}

// refreshPeriod is the interval between fetches of discovery from a server.
const refreshPeriod = time.Minute

// aggregatedTypes is the Accept header for aggregated discovery. Servers that do not support aggregated
// discovery respond with plain JSON.
const aggregatedTypes = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

// discover returns the discovery of a group version. It uses the cache if the cached data is younger than half
// of refreshPeriod and fresh is not set.
func (s *server) discover(ctx context.Context, gv schema.GroupVersion, fresh bool) (*apidiscovery.APIVersionDiscovery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fresh || time.Since(s.cache.checked) >= refreshPeriod/2 || s.cache.groups[gv] == nil {
		if err := s.discoverAllLocked(ctx); err != nil {
			return nil, err
		}
	}
	if known := s.cache.groups[gv]; known != nil {
		return known, nil
	}
	return s.discoverGroupVersion(ctx, gv)
}

// discoverAllLocked fetches aggregated discovery into the cache. If the server does not support aggregated
// discovery, cache.groups is nil afterwards, and the returned error is nil.
func (s *server) discoverAllLocked(ctx context.Context) error {
	response, err := s.fetch(ctx, "/apis", aggregatedTypes, s.cache.etag)
	switch {
	case isNotServed(err):
		s.cache.checked, s.cache.groups, s.cache.etag = time.Now(), nil, ""
		return nil
	case err != nil:
		return fmt.Errorf("fetch discovery: %w", err)
	case response.notModified:
		s.cache.checked = time.Now()
		return nil
	}
	s.cache.checked, s.cache.groups, s.cache.etag = time.Now(), nil, ""
	if !isAggregated(response.contentType) {
		return nil
	}
	var list apidiscovery.APIGroupDiscoveryList
	if err := json.Unmarshal(response.body, &list); err != nil {
		return fmt.Errorf("decode discovery: %w", err)
	}
	groups := map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery{}
	for i := range list.Items {
		for j := range list.Items[i].Versions {
			v := &list.Items[i].Versions[j]
			v.Freshness = apidiscovery.DiscoveryFreshnessCurrent
			groups[schema.GroupVersion{Group: list.Items[i].Name, Version: v.Version}] = v
		}
	}
	s.cache.groups, s.cache.etag = groups, response.etag
	return nil
}

func isAggregated(contentType string) bool {
	_, params, err := mime.ParseMediaType(contentType)
	return err == nil && params["as"] == "APIGroupDiscoveryList"
}

// discoverGroupVersion fetches the plain discovery document of a group version.
func (s *server) discoverGroupVersion(ctx context.Context, gv schema.GroupVersion) (*apidiscovery.APIVersionDiscovery, error) {
	response, err := s.fetch(ctx, path(gv), "application/json", "")
	if err != nil {
		return nil, fmt.Errorf("fetch the resources of %s: %w", gv, err)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(response.body, &list); err != nil {
		return nil, fmt.Errorf("decode the resources of %s: %w", gv, err)
	}
	if list.GroupVersion != gv.String() {
		return nil, fmt.Errorf("decode the resources of %s: the response has group version %q", gv, list.GroupVersion)
	}
	return &apidiscovery.APIVersionDiscovery{
		Version: gv.Version, Freshness: apidiscovery.DiscoveryFreshnessCurrent, Resources: aggregateResources(gv, list.APIResources),
	}, nil
}

// aggregateResources converts plain discovery to aggregated discovery, in which subresources are
// nested in their resource.
func aggregateResources(gv schema.GroupVersion, plain []metav1.APIResource) []apidiscovery.APIResourceDiscovery {
	var out []apidiscovery.APIResourceDiscovery
	places := map[string]int{}
	place := func(name string) *apidiscovery.APIResourceDiscovery {
		i, found := places[name]
		if !found {
			i = len(out)
			places[name] = i
			out = append(out, apidiscovery.APIResourceDiscovery{Resource: name, Scope: apidiscovery.ScopeCluster})
		}
		return &out[i]
	}
	for i := range plain {
		r := &plain[i]
		name, subresource, isSubresource := strings.Cut(r.Name, "/")
		resource := place(name)
		if r.Namespaced {
			resource.Scope = apidiscovery.ScopeNamespace
		}
		if isSubresource {
			resource.Subresources = append(resource.Subresources, apidiscovery.APISubresourceDiscovery{
				Subresource: subresource, ResponseKind: responseKind(gv, r), Verbs: r.Verbs,
			})
			continue
		}
		resource.ResponseKind, resource.SingularResource = responseKind(gv, r), r.SingularName
		resource.Verbs, resource.ShortNames, resource.Categories = r.Verbs, r.ShortNames, r.Categories
	}
	return out
}

func responseKind(gv schema.GroupVersion, r *metav1.APIResource) *metav1.GroupVersionKind {
	if r.Kind == "" {
		return nil
	}
	kind := &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
	if kind.Group == "" {
		kind.Group = gv.Group
	}
	if kind.Version == "" {
		kind.Version = gv.Version
	}
	return kind
}

// stale returns a shallow copy of the resources with freshness Stale, or resources itself if they are already
// stale.
func stale(resources *apidiscovery.APIVersionDiscovery) *apidiscovery.APIVersionDiscovery {
	if resources.Freshness == apidiscovery.DiscoveryFreshnessStale {
		return resources
	}
	old := *resources
	old.Freshness = apidiscovery.DiscoveryFreshnessStale
	return &old
}

func equalResources(a, b *apidiscovery.APIVersionDiscovery) bool {
	return a == b || reflect.DeepEqual(a, b)
}
