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

// Override is a separate store of some built-in resources, which are all Overridable.
type Override struct {
	Resources []schema.GroupResource
	Backend   kv.Backend
	Feed      *cache.Feed // as Env.Feed, of this store
}

// CheckOverride returns an error for a resource that cannot have a separate store, because one
// transaction writes it together with others.
func CheckOverride(resource schema.GroupResource) error {
	switch resource {
	case corev1.Resource("services"), networkingv1.Resource("ipaddresses"), quota.Resource():
		return fmt.Errorf("%s cannot be kept apart: they are written in one transaction with others", resource)
	}
	return nil
}

// overridden returns the stores of single resources.
func overridden(overrides []Override) map[schema.GroupResource]factory.Override {
	found := map[schema.GroupResource]factory.Override{}
	for _, o := range overrides {
		for _, resource := range o.Resources {
			found[resource] = factory.Override{Backend: o.Backend, Feed: o.Feed}
		}
	}
	return found
}

// Overridable reports whether a resource can have a separate store. As in kube-apiserver, custom
// resources, definitions and APIServices cannot.
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

// apart returns the backends of the paths whose objects are not in Env.Backend.
func (i *instance) apart() map[string]kv.Backend {
	found := map[string]kv.Backend{}
	for _, spec := range i.rows.Specs() {
		if backend := i.factory.Backend(spec.Resource); backend != i.env.Backend {
			found[spec.Path] = backend
		}
	}
	return found
}
