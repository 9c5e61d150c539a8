package controlplane

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
	"mainstay.dev/mainstay/internal/registry/quota"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/factory"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// Override is a separate store for some built-in resources. All of them must be Overridable and pass
// CheckOverride.
type Override struct {
	Resources []schema.GroupResource
	Backend   kv.Backend
	// Feed is the change feed of this store; nil disables the watch caches of the resources.
	Feed *cache.Feed
}

// CheckOverride returns an error for a resource that cannot have a separate store, because it is written
// together with other resources in one transaction.
func CheckOverride(resource schema.GroupResource) error {
	switch resource {
	case corev1.Resource("services"), networkingv1.Resource("ipaddresses"), quota.Resource():
		return fmt.Errorf("%s cannot have a separate store: they are written in one transaction with other resources", resource)
	}
	return nil
}

// storageOverrides returns the separate stores by resource.
func storageOverrides(overrides []Override) map[schema.GroupResource]factory.Override {
	found := map[schema.GroupResource]factory.Override{}
	for _, o := range overrides {
		for _, resource := range o.Resources {
			found[resource] = factory.Override{Backend: o.Backend, Feed: o.Feed}
		}
	}
	return found
}

// StoragePath returns the storage path of a resource, such as "pods" or "example.com/widgets". It is relative
// to the prefix of a control plane.
func StoragePath(resource schema.GroupResource) string {
	return NewKeys("").pathOf(resource)
}

// ServerLeasePaths returns the storage paths of the leases of servers. They are relative to the prefix of a
// control plane.
func ServerLeasePaths() []string { return []string{serverLeasesPath, peerLeasesPath} }

// Overridable reports whether a resource can have a separate store. As in kube-apiserver, custom resources,
// CustomResourceDefinitions and APIServices cannot.
func Overridable(resource schema.GroupResource) bool {
	if resource == definitionsResource || resource == apiServices.GroupResource() {
		return false
	}
	for _, known := range builtin.Paths(all.Groups()) {
		if known == resource {
			return true
		}
	}
	return false
}
