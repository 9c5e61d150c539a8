package controlplane

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/registry/quota"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/factory"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// objectStorage opens the storage of resources.
type objectStorage struct {
	factory   *factory.Factory
	observers *observers
	// ledger charges the writes of namespaced objects to quotas; it is nil if the plugin ResourceQuota is
	// disabled.
	ledger *quota.Ledger
	// limits limits the writes of clients; nil means no limits.
	limits ObjectLimits
	// namespaces returns the storage of the namespaces. It is nil if the plugin NamespaceLifecycle is disabled.
	namespaces func() storage.Interface
	// uncached contains the built-in resources without a watch cache.
	uncached map[schema.GroupResource]bool
}

func newObjectStorage(s *settings, observers *observers, ledger *quota.Ledger) (*objectStorage, error) {
	env := &s.env.Storage
	opener, err := factory.New(factory.Config{
		Backend: env.Backend, Prefix: s.prefix, Feed: env.Feed, Overrides: storageOverrides(env.Overrides), Transformer: env.Transformer,
		Encodings: env.Encodings, Metrics: s.env.Telemetry.Metrics.Storage.Storage, RecordOrigins: env.History != nil,
	})
	if err != nil {
		return nil, err
	}
	if !s.pluginEnabled(resourceQuota) {
		ledger = nil
	}
	uncached, err := s.options.Storage.uncached()
	if err != nil {
		return nil, err
	}
	return &objectStorage{factory: opener, observers: observers, ledger: ledger, limits: s.options.Limits, uncached: uncached}, nil
}

// open opens the storage of a built-in resource for requests.
func (o *objectStorage) open(spec storage.Spec) (storage.Interface, error) {
	spec.Observer, spec.Uncached = o.observers.ofWritten(spec.Resource), spec.Uncached || o.uncached[spec.Resource]
	return o.openCharged(spec)
}

// openCharged opens the storage of a resource for requests. Writes of namespaced objects are charged
// to quotas.
func (o *objectStorage) openCharged(spec storage.Spec) (storage.Interface, error) {
	opened, err := o.factory.Open(spec)
	if err != nil {
		return nil, err
	}
	if o.limits != nil {
		opened = &limitedStorage{opened, o.limits}
	}
	if !spec.Namespaced {
		return opened, nil
	}
	if o.namespaces != nil {
		opened = &namespacedStorage{opened, spec.Resource, o.namespaces}
	}
	if o.ledger != nil {
		opened = o.ledger.Account(spec.Resource, opened)
	}
	if observer := o.observers.ofCharged(spec.Resource); observer != nil {
		opened = storage.WithObserver(opened, observer)
	}
	return opened, nil
}

// builtinResources are the built-in resources of a control plane and their storage.
type builtinResources struct {
	storage *objectStorage
	rows    *builtin.Env
	opened  *builtin.Resources
	static  *route.Static // all built-in resources
	served  *route.Static // resources that clients can use
}

func newBuiltinResources(objects *objectStorage, rows *builtin.Env, declared *declaredResources) *builtinResources {
	opened := declared.Open(rows)
	return &builtinResources{
		storage: objects, rows: rows, opened: opened,
		static: declared.static.Opening(opened.Get), served: declared.served.Opening(opened.Get),
	}
}

// stores reports whether the server stores objects of a built-in resource, which is not the case if its
// feature gate is disabled.
func (b *builtinResources) stores(resource schema.GroupResource) bool {
	return b.rows.Spec(resource).Kind != nil
}

// uncached opens the storage of a built-in resource without its watch cache, for components that
// keep their own copy of the objects or read them rarely.
func (b *builtinResources) uncached(resource schema.GroupResource) (storage.Interface, error) {
	return b.observed(resource, nil)
}

// observed is like uncached, but for a component that also writes objects. observer is called for these writes.
func (b *builtinResources) observed(resource schema.GroupResource, observer *storage.Observer) (storage.Interface, error) {
	spec := b.rows.Spec(resource)
	spec.Uncached, spec.Observer = true, observer
	return b.storage.factory.Open(spec)
}

// serverLeases opens the storage of the leases with which servers that share an etcd find each other. As in
// kube-apiserver, the leases are Endpoints whose keys contain no namespace.
func (b *builtinResources) serverLeases(path string) (storage.Interface, error) {
	spec := b.rows.Spec(corev1.Resource("endpoints"))
	spec.Path, spec.Namespaced, spec.Uncached = path, false, true
	spec.Resource = leaseResources()[path] // kube-apiserver does not encrypt this resource
	return b.storage.factory.Open(spec)
}

// overrides returns the backends of resources with a separate store, by storage path. main is the
// backend of all other resources.
func (b *builtinResources) overrides(main kv.Backend) map[string]kv.Backend {
	found := map[string]kv.Backend{}
	for _, spec := range b.rows.Specs() {
		if backend := b.storage.factory.Backend(spec.Resource); backend != main {
			found[spec.Path] = backend
		}
	}
	return found
}
