package rbac

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/storage"
	"mainstay.dev/mainstay/storage/reflector"
)

// kind is one of the four kinds, and what is known of the reports of its objects.
type kind struct {
	set     func(name roleKey, obj codec.Object) error
	remove  func(name roleKey)
	names   func(yield func(roleKey) bool) // of the objects in the index
	tracker reflector.VersionTracker
}

// Resources are the resources that a decision is made from.
func Resources() []schema.GroupVersionResource {
	var all []schema.GroupVersionResource
	for _, name := range []string{"clusterroles", "roles", "clusterrolebindings", "rolebindings"} {
		all = append(all, rbacv1.SchemeGroupVersion.WithResource(name))
	}
	return all
}

func (a *Authorizer) newKinds() map[string]*kind {
	x := &a.index
	return map[string]*kind{
		"clusterroles": {
			set:    setAs(func(at roleKey, r *rbacv1.ClusterRole) { x.setRole(at, r.Rules) }),
			remove: x.removeRole, names: func(yield func(roleKey) bool) { x.eachRole(true, yield) },
		},
		"roles": {
			set:    setAs(func(at roleKey, r *rbacv1.Role) { x.setRole(at, r.Rules) }),
			remove: x.removeRole, names: func(yield func(roleKey) bool) { x.eachRole(false, yield) },
		},
		"clusterrolebindings": {
			set:    setAs(func(at roleKey, b *rbacv1.ClusterRoleBinding) { x.setBinding(at, b.RoleRef, b.Subjects) }),
			remove: x.removeBinding, names: func(yield func(roleKey) bool) { x.eachBinding(true, yield) },
		},
		"rolebindings": {
			set:    setAs(func(at roleKey, b *rbacv1.RoleBinding) { x.setBinding(at, b.RoleRef, b.Subjects) }),
			remove: x.removeBinding, names: func(yield func(roleKey) bool) { x.eachBinding(false, yield) },
		},
	}
}

func setAs[T codec.Object](set func(roleKey, T)) func(roleKey, codec.Object) error {
	return func(at roleKey, obj codec.Object) error {
		typed, ok := obj.(T)
		if !ok {
			return fmt.Errorf("%s is a %T", at.name, obj)
		}
		set(at, typed)
		return nil
	}
}

// Reflector returns what keeps the Authorizer up to date with one of Resources.
func (a *Authorizer) Reflector(resource string, collection reflector.Collection, metrics *reflector.Metrics) (*reflector.Reflector, error) {
	k := a.kinds[resource]
	return reflector.New(reflector.Config{
		Name: resource, Collection: collection, Logger: a.logger, Metrics: metrics,
		Replace: func(_ context.Context, list *rest.List) error { return a.replace(k, list) },
		Apply: func(_ context.Context, events []rest.Event) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			for i := range events {
				a.apply(k, &events[i])
			}
			return nil
		},
	})
}

// Observer returns what is told of the writes of one of Resources, so that they are
// in effect when they are answered.
func (a *Authorizer) Observer(resource string) *storage.Observer {
	k := a.kinds[resource]
	return &storage.Observer{
		Written: func(record *codec.Record) error {
			at := keyOf(record.Name())
			a.mu.Lock()
			defer a.mu.Unlock()
			if k.tracker.Written(at.text(), record.Revision()) {
				a.take(k, record)
			}
			return nil
		},
		Deleted: func(name types.NamespacedName, revision int64) {
			at := keyOf(name)
			a.mu.Lock()
			defer a.mu.Unlock()
			if k.tracker.Written(at.text(), revision) {
				k.remove(at)
			}
		},
	}
}

func keyOf(name types.NamespacedName) roleKey { return roleKey{name.Namespace, name.Name} }

func (k roleKey) text() string { return k.namespace + "/" + k.name }

// replace takes up a list. Nobody waits while it is read.
func (a *Authorizer) replace(k *kind, list *rest.List) error {
	var records []*codec.Record
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		records = append(records, record)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	gone := map[roleKey]struct{}{}
	for at := range k.names {
		gone[at] = struct{}{}
	}
	for _, record := range records {
		at := keyOf(record.Name())
		delete(gone, at)
		if k.tracker.Reflected(at.text(), record.Revision()) {
			a.take(k, record)
		}
	}
	for at := range gone {
		if k.tracker.Reflected(at.text(), list.Revision) {
			k.remove(at)
		}
	}
	k.tracker.Replaced(list.Revision)
	return nil
}

func (a *Authorizer) apply(k *kind, event *rest.Event) {
	at := keyOf(event.Record.Name())
	if !k.tracker.Reflected(at.text(), event.Record.Revision()) {
		return
	}
	if event.Type == watch.Deleted {
		k.remove(at)
		return
	}
	a.take(k, event.Record)
}

// take takes up an object. One that cannot be read grants nothing.
func (a *Authorizer) take(k *kind, record *codec.Record) {
	at := keyOf(record.Name())
	obj, err := record.Shared()
	if err == nil {
		err = k.set(at, obj)
	}
	if err != nil {
		a.logger.Error("a role or binding cannot be read, and grants nothing", "name", record.Name(), "err", err)
		k.remove(at)
	}
}
