package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/apis/history"
	"mainstay.dev/mainstay/internal/host/fleet"
)

// compareObjects returns the differences between the current objects of two control planes, as changes from
// before to after in the order of forkChanges. It matches objects by name, and ignores UIDs, times, the status
// and generated objects. An empty namespace selects all objects. It lists all objects of both control planes.
func compareObjects(ctx context.Context, before, after *apiClient, namespace string) ([]*history.Change, error) {
	resources, err := listedResources(ctx, before)
	if err != nil {
		return nil, err
	}
	other, err := listedResources(ctx, after)
	if err != nil {
		return nil, err
	}
	var changes []*history.Change
	maps.Copy(other, resources) // objects of a common resource are compared in one version
	for _, r := range slices.SortedFunc(maps.Values(other), func(a, b schema.GroupVersionResource) int { return strings.Compare(a.String(), b.String()) }) {
		found, err := compareResource(ctx, before, after, r)
		if err != nil {
			return nil, fmt.Errorf("compare %s: %w", r.GroupResource(), err)
		}
		changes = append(changes, slices.DeleteFunc(found, belongsToServer)...)
	}
	return relevantChanges(changes, namespace), nil
}

// isCompared reports whether compareObjects compares the objects of a resource. It skips resources whose
// objects always differ between control planes.
func isCompared(resource schema.GroupResource) bool {
	switch resource.String() {
	case "events", "events.events.k8s.io", "leases.coordination.k8s.io", "componentstatuses", "storageversions.internal.apiserver.k8s.io":
		return false
	}
	return resource != controlplanes.Resource().GroupResource() && resource.Group != history.GroupVersion().Group
}

// belongsToServer reports whether the object of a change describes the control plane itself, and therefore
// differs between all control planes. Such objects contain certificate authorities, the date of the first
// start, or the kubeconfigs of declared control planes.
func belongsToServer(c *history.Change) bool {
	if c.Namespace != metav1.NamespaceSystem {
		return false
	}
	switch objectName(c) {
	case "configmaps/extension-apiserver-authentication", "configmaps/kube-apiserver-legacy-service-account-token-tracking":
		return true
	}
	kind, _, _ := unstructured.NestedString(c.State(), "type")
	return c.Object.Resource == "secrets" && kind == string(fleet.SecretType)
}

// listedResources returns the resources of a control plane that compareObjects lists, each in its preferred
// version.
func listedResources(ctx context.Context, client *apiClient) (map[schema.GroupResource]schema.GroupVersionResource, error) {
	found, err := discoverResources(ctx, client)
	if err != nil {
		return nil, err
	}
	resources := map[schema.GroupResource]schema.GroupVersionResource{}
	for _, r := range found {
		name := schema.GroupResource{Group: r.group, Resource: r.Resource}
		_, known := resources[name]
		if !known && slices.Contains(r.Verbs, "list") && isCompared(name) {
			resources[name] = name.WithVersion(r.version)
		}
	}
	return resources, nil
}

// compareResource returns the differences between the objects of one resource.
func compareResource(ctx context.Context, before, after *apiClient, resource schema.GroupVersionResource) ([]*history.Change, error) {
	path := versionPath(resource.GroupVersion()) + "/" + resource.Resource
	old, err := objectsByName(ctx, before, path)
	if err != nil {
		return nil, err
	}
	current, err := objectsByName(ctx, after, path)
	if err != nil {
		return nil, err
	}
	var changes []*history.Change
	for name := range maps.Keys(old) {
		if _, ok := current[name]; !ok {
			changes = append(changes, newDifference(resource, history.Deleted, old[name], nil))
		}
	}
	for name, object := range current {
		operation := history.Updated
		if old[name] == nil {
			operation = history.Created
		}
		changes = append(changes, newDifference(resource, operation, old[name], object))
	}
	return changes, nil
}

// objectsByName returns the objects of a collection, keyed by namespace and name. The map is empty if the
// control plane does not have the resource.
func objectsByName(ctx context.Context, client *apiClient, path string) (map[string]map[string]any, error) {
	list, err := listAll[map[string]any](ctx, client, path, nil)
	if err != nil && !isStatus(err, http.StatusNotFound) {
		return nil, err
	}
	objects := make(map[string]map[string]any, len(list))
	for _, content := range list {
		object := unstructured.Unstructured{Object: content}
		objects[object.GetNamespace()+"/"+object.GetName()] = content
	}
	return objects, nil
}

func newDifference(resource schema.GroupVersionResource, operation history.Operation, before, after map[string]any) *history.Change {
	c := &history.Change{Operation: operation, Before: withoutIdentity(before), After: withoutIdentity(after)}
	object := unstructured.Unstructured{Object: c.State()}
	c.Namespace = object.GetNamespace()
	c.Object = history.ObjectReference{Resource: resource.GroupResource().String(), Name: object.GetName()}
	return c
}
