package controlplane

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission/policies"
	"mainstay.dev/mainstay/internal/cel/policy"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// admissionPolicies are the policy plugins and their reflectors.
type admissionPolicies struct {
	config     *policies.Config
	validating policies.Validating
	mutating   policies.Mutating
	follow     followers
}

// openPolicies creates the plugins of policies.
func (i *instance) openPolicies() error {
	config := &policies.Config{
		Namespaces: namespaces(i), Authorizer: i.authorizer, ResourceOf: i.resourceOf(),
		TypeConverter: i.env.TypeConverter, Programs: new(policy.Programs), Metrics: i.env.Metrics.Policies, Logger: i.env.Logger,
	}
	p := &admissionPolicies{config: config, validating: policies.NewValidating(config), mutating: policies.NewMutating(config)}
	i.policies = p
	files, resources := i.options.AdmissionConfig, p.validating.Resources()
	i.addManifests(p.validating, files.ValidatingAdmissionPolicy.StaticManifestsDir, resources[:]...)
	for _, resource := range resources {
		if err := i.follow(&p.follow, resource, p.validating.Reflector); err != nil {
			return err
		}
	}
	if !i.rows.Gates.Enabled(feature.MutatingAdmissionPolicy) {
		return nil
	}
	resources = p.mutating.Resources()
	i.addManifests(p.mutating, files.MutatingAdmissionPolicy.StaticManifestsDir, resources[:]...)
	for _, resource := range resources {
		if err := i.follow(&p.follow, resource, p.mutating.Reflector); err != nil {
			return err
		}
	}
	return nil
}

// observePolicies has the writes of policies and bindings in effect when they return; nil
// for other resources. The plugins are there before anything is written.
func (i *instance) observePolicies(resource schema.GroupResource) *storage.Observer {
	if resource.Group != admissionregistrationv1.GroupName {
		return nil
	}
	switch resource.Resource {
	case "validatingadmissionpolicies", "validatingadmissionpolicybindings":
		return lateObserver(func() *storage.Observer { return i.policies.validating.Observer(resource) })
	case "mutatingadmissionpolicies", "mutatingadmissionpolicybindings":
		return lateObserver(func() *storage.Observer { return i.policies.mutating.Observer(resource) })
	}
	return nil
}

// lateObserver is an observer that is made after the storage that it observes.
func lateObserver(of func() *storage.Observer) *storage.Observer {
	return &storage.Observer{
		Written: func(record *codec.Record) error { return of().Written(record) },
		Deleted: func(name types.NamespacedName, revision int64) { of().Deleted(name, revision) },
	}
}

// resourceOf returns a function that finds the resource of a kind. It caches names.
func (i *instance) resourceOf() func(schema.GroupVersionKind) *rest.Resource {
	var names sync.Map // by kind
	find := func(gvk schema.GroupVersionKind, name string) *rest.Resource {
		if r := i.catalog.Find(gvk.GroupVersion(), name, ""); r != nil && r.Version.GVK == gvk {
			return r
		}
		return nil
	}
	return func(gvk schema.GroupVersionKind) *rest.Resource {
		if name, known := names.Load(gvk); known {
			if r := find(gvk, name.(string)); r != nil {
				return r
			}
		}
		described := i.resourcesOf(gvk)
		if len(described) == 0 {
			return nil
		}
		names.Store(gvk, described[0].Name)
		return find(gvk, described[0].Name)
	}
}

// nameOf returns the resource name of a kind, or "".
func (i *instance) nameOf(gvk schema.GroupVersionKind) string {
	if r := i.policies.config.ResourceOf(gvk); r != nil {
		return r.Name
	}
	return ""
}

// followers are the reflectors of server configuration.
type followers []*reflector.Reflector

// follow adds a reflector of a built-in resource.
func (i *instance) follow(to *followers, resource schema.GroupResource,
	of func(schema.GroupResource, reflector.Collection, *reflector.Metrics) (*reflector.Reflector, error)) error {
	stored, err := i.uncached(resource)
	if err != nil {
		return err
	}
	made, err := of(resource, stored, i.env.Metrics.Reflectors)
	if err != nil {
		return fmt.Errorf("follow %s: %w", resource, err)
	}
	*to = append(*to, made)
	return nil
}

// load reads all that is followed.
func (f followers) load(ctx context.Context) error {
	var group errgroup.Group
	for _, follow := range f {
		group.Go(func() error { return follow.Load(ctx) })
	}
	return group.Wait()
}

// run processes the writes of other servers.
func (f followers) run(ctx context.Context) error {
	var group errgroup.Group
	for _, follow := range f {
		group.Go(func() error { follow.Run(ctx); return nil })
	}
	return group.Wait()
}
