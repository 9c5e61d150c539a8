// Package discovery serves API discovery: the documents of groups, versions and resources, and
// aggregated discovery, which contains all of them in one document (KEP-3352). It builds the
// documents from the catalog of package route.
package discovery

import (
	"net"
	"net/http"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/rest"
)

func groupVersion(gv schema.GroupVersion) metav1.GroupVersionForDiscovery {
	return metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
}

// apiGroup returns the document of a group.
func apiGroup(g group) metav1.APIGroup {
	out := metav1.APIGroup{Name: g.name}
	for _, v := range g.versions {
		out.Versions = append(out.Versions, groupVersion(v.GroupVersion))
	}
	out.PreferredVersion = out.Versions[0]
	return out
}

// resourceList returns the document of a version. Resources, and subresources of built-in
// resources, are sorted by name. Subresources of custom resources are in kube-apiserver's order:
// status, then scale.
func resourceList(v rest.Version) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: v.GroupVersion.String(), APIResources: []metav1.APIResource{}}
	sortedAs := map[string]string{}
	for _, r := range v.Resources {
		resource := apiResource(r)
		list.APIResources = append(list.APIResources, resource)
		sortedAs[resource.Name] = resource.Name
		if r.Custom {
			sortedAs[resource.Name] = r.Name
		}
	}
	slices.SortStableFunc(list.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(sortedAs[a.Name], sortedAs[b.Name]) })
	return list
}

func apiResource(r *rest.Resource) metav1.APIResource {
	out := metav1.APIResource{
		Name: r.FullName(), Namespaced: r.Namespaced, Kind: r.Version.GVK.Kind, Verbs: r.VerbNames(),
		ShortNames: r.ShortNames, Categories: r.Categories, StorageVersionHash: r.StorageVersionHash,
	}
	if r.Subresource == "" {
		out.SingularName = r.Singular
	}
	if gvk := r.Version.GVK; gvk.GroupVersion() != r.GroupVersion {
		out.Group, out.Version = gvk.Group, gvk.Version
	}
	return out
}

// aggregated converts groups to the form of aggregated discovery.
func aggregated(groups []group) []apidiscovery.APIGroupDiscovery {
	list := []apidiscovery.APIGroupDiscovery{}
	for _, g := range groups {
		item := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for _, v := range g.versions {
			if v.remote != nil {
				item.Versions = append(item.Versions, *v.remote)
				continue
			}
			item.Versions = append(item.Versions, apidiscovery.APIVersionDiscovery{
				Version: v.GroupVersion.Version, Freshness: apidiscovery.DiscoveryFreshnessCurrent, Resources: discoveryResources(v.Version),
			})
		}
		list = append(list, item)
	}
	return list
}

func discoveryResources(v rest.Version) []apidiscovery.APIResourceDiscovery {
	var out []apidiscovery.APIResourceDiscovery
	for _, r := range v.Resources {
		if r.Subresource != "" {
			continue
		}
		scope := apidiscovery.ScopeCluster
		if r.Namespaced {
			scope = apidiscovery.ScopeNamespace
		}
		resource := apidiscovery.APIResourceDiscovery{
			Resource: r.Name, ResponseKind: responseKind(r), Scope: scope, SingularResource: r.Singular,
			Verbs: r.VerbNames(), ShortNames: r.ShortNames, Categories: r.Categories,
		}
		for _, sub := range v.Resources {
			if sub.Name == r.Name && sub.Subresource != "" {
				resource.Subresources = append(resource.Subresources, apidiscovery.APISubresourceDiscovery{
					Subresource: sub.Subresource, ResponseKind: responseKind(sub), Verbs: sub.VerbNames(),
				})
			}
		}
		out = append(out, resource)
	}
	return out
}

// responseKind returns the kind of a resource. The group and version in the result are empty if the resource
// is built in and its kind has the same group and version as the resource.
func responseKind(r *rest.Resource) *metav1.GroupVersionKind {
	gvk := r.Version.GVK
	if gvk.GroupVersion() == r.GroupVersion && !r.Version.Untyped {
		return &metav1.GroupVersionKind{Kind: gvk.Kind}
	}
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}

// serverAddress returns Handler.ServerAddress, or the local address of the request's connection, as
// the address of the server for all clients.
func (h *Handler) serverAddress(r *http.Request) []metav1.ServerAddressByClientCIDR {
	address := h.ServerAddress
	if address == "" {
		address = r.Host
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			address = local.String()
		}
	}
	return []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: address}}
}
