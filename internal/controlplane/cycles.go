package controlplane

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// newInstance creates each component from previously created components. The types in this file break the
// four dependency cycles between components. Their values are created first, completed once by newInstance
// or by constructors, and read only after the instance has started:
//
//   - resourceFinder: storage hooks of built-in resources look up resources. These include custom
//     resources, whose source reads built-in resources.
//   - loopbackAPI: admission plugins and controllers write objects with the API, which calls the
//     plugins.
//   - observers: built-in resources report their writes to components that read these resources.
//   - versionListeners: the source of custom resources reports its group versions to components
//     that depend on the source.

// resourceFinder finds the resources of a control plane. It is safe for concurrent use after
// publish.
type resourceFinder struct {
	static  *route.Static  // built-in resources, including resources that are not served
	served  *route.Static  // built-in resources that are served
	catalog *route.Catalog // served resources, including custom resources
	names   sync.Map       // cache of ofKind; maps kinds to names of resources
}

// publish completes the finder, which must not be used before.
func (f *resourceFinder) publish(builtin *builtinResources, catalog *route.Catalog) {
	f.static, f.served, f.catalog = builtin.static, builtin.served, catalog
}

// find returns a built-in resource, even if it is not served, or a served custom resource. It returns nil if
// the resource does not exist.
func (f *resourceFinder) find(gv schema.GroupVersion, resource, subresource string) *rest.Resource {
	if own := f.static.Find(gv, resource, subresource); own != nil {
		return own
	}
	return f.catalog.Find(gv, resource, subresource)
}

// allOfKind returns the served resources of a kind in a version, without subresources.
func (f *resourceFinder) allOfKind(gvk schema.GroupVersionKind) []*rest.Resource {
	var resources []*rest.Resource
	group, _ := f.catalog.Group(gvk.Group)
	for _, version := range group.Versions {
		for _, r := range version.Resources {
			if version.GroupVersion != gvk.GroupVersion() || r.Subresource != "" || r.Version.GVK.Kind != gvk.Kind {
				continue
			}
			if served := f.catalog.Find(r.GroupVersion, r.Name, ""); served != nil { // nil if its definition was just deleted
				resources = append(resources, served)
			}
		}
	}
	return resources
}

// ofKind returns the served resource of a kind, or nil. It caches the name of the resource.
func (f *resourceFinder) ofKind(gvk schema.GroupVersionKind) *rest.Resource {
	named := func(name string) *rest.Resource {
		if r := f.catalog.Find(gvk.GroupVersion(), name, ""); r != nil && r.Version.GVK == gvk {
			return r
		}
		return nil
	}
	if name, ok := f.names.Load(gvk); ok {
		if r := named(name.(string)); r != nil {
			return r
		}
	}
	all := f.allOfKind(gvk)
	if len(all) == 0 {
		return nil
	}
	f.names.Store(gvk, all[0].Name)
	return named(all[0].Name)
}

// nameOfKind returns the name of the served resource of a kind, or "".
func (f *resourceFinder) nameOfKind(gvk schema.GroupVersionKind) string {
	if r := f.ofKind(gvk); r != nil {
		return r.Name
	}
	return ""
}

// loopbackAPI is the API of loopback clients. newInstance sets the embedded API once.
type loopbackAPI struct{ loopback.API }

// loopbackAccess is the loopback.Access of a control plane. newInstance sets its fields api and finder
// later.
type loopbackAccess struct {
	*loopback.Access
	api    *loopbackAPI
	finder *resourceFinder
}

// newLoopbackAccess returns a loopbackAccess. It must not be used before its finder and its API are complete.
func newLoopbackAccess() *loopbackAccess {
	a := &loopbackAccess{api: &loopbackAPI{}, finder: &resourceFinder{}}
	a.Access = &loopback.Access{API: a.api, Find: a.finder.find, Manager: manager}
	return a
}

// observers connects the storage of built-in resources to the components that must process a write
// before the writer receives its response. Resources are declared before their storage is opened;
// components add their observers afterwards, and before the first write.
type observers struct {
	written map[schema.GroupResource]*observerList
	// charged contains observers that are called after quota accounting has released its locks.
	charged map[schema.GroupResource]*observerList
}

// newObservers declares the resources with observers. The storage calls the observers of the resources in
// written after each write. The observers of the resources in charged are called after quota accounting.
func newObservers(written, charged []schema.GroupResource) *observers {
	o := &observers{written: map[schema.GroupResource]*observerList{}, charged: map[schema.GroupResource]*observerList{}}
	for _, resource := range written {
		o.written[resource] = &observerList{}
	}
	for _, resource := range charged {
		o.charged[resource] = &observerList{}
	}
	return o
}

// ofWritten returns the observer of a resource, or nil if the resource is not declared.
func (o *observers) ofWritten(resource schema.GroupResource) *storage.Observer {
	return o.written[resource].observer()
}

// ofCharged is like ofWritten, but its observer is called after quota accounting has released its locks.
func (o *observers) ofCharged(resource schema.GroupResource) *storage.Observer {
	return o.charged[resource].observer()
}

// errNotObservable is returned when an observer is added to a resource that is not declared, because the
// observer would never be called.
var errNotObservable = errors.New("writes of the resource are not observable")

func (o *observers) addWritten(resource schema.GroupResource, observer *storage.Observer) error {
	return o.written[resource].add(resource, observer)
}

func (o *observers) addCharged(resource schema.GroupResource, observer *storage.Observer) error {
	return o.charged[resource].add(resource, observer)
}

// observerList calls the observers of one resource in the order in which they were added.
type observerList struct{ all *storage.Observer }

func (l *observerList) add(resource schema.GroupResource, observer *storage.Observer) error {
	if l == nil {
		return fmt.Errorf("observe %s: %w", resource, errNotObservable)
	}
	l.all = l.all.And(observer)
	return nil
}

func (l *observerList) observer() *storage.Observer {
	if l == nil {
		return nil
	}
	return &storage.Observer{
		Written: func(record *codec.Record) error {
			if l.all == nil {
				return nil
			}
			return l.all.Written(record)
		},
		Deleted: func(name types.NamespacedName, revision int64) {
			if l.all != nil && l.all.Deleted != nil {
				l.all.Deleted(name, revision)
			}
		},
	}
}

// versionListeners are called with the custom group versions whose resources have changed.
type versionListeners struct{ all []func([]schema.GroupVersion) }

func (l *versionListeners) add(listener func([]schema.GroupVersion)) { l.all = append(l.all, listener) }

func (l *versionListeners) changed(versions []schema.GroupVersion) {
	for _, listener := range l.all {
		listener(versions)
	}
}
