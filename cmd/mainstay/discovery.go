package main

import (
	"context"
	"net/http"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
)

// discoveredResource is a resource in one version of an API group.
type discoveredResource struct {
	group, version string
	*apidiscoveryv2.APIResourceDiscovery
}

// isNamespaced reports whether the objects of the resource are in namespaces.
func (r discoveredResource) isNamespaced() bool { return r.Scope == apidiscoveryv2.ScopeNamespace }

// discoverResources returns the resources of a server in the order of its discovery document, in which the
// preferred version of a group precedes the other versions.
func discoverResources(ctx context.Context, client *apiClient) ([]discoveredResource, error) {
	var found []discoveredResource
	for _, path := range []string{"/api", "/apis"} {
		var document apidiscoveryv2.APIGroupDiscoveryList
		if err := client.do(ctx, http.MethodGet, path, nil, &document); err != nil {
			return nil, err
		}
		for _, group := range document.Items {
			for _, version := range group.Versions {
				for i := range version.Resources {
					found = append(found, discoveredResource{group.Name, version.Version, &version.Resources[i]})
				}
			}
		}
	}
	return found, nil
}
