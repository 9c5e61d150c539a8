package controlplane

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/plugin"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
)

// namespaceLifecycle is the name of the admission plugin that rejects new objects in terminating namespaces.
const namespaceLifecycle = "NamespaceLifecycle"

// namespacedStorage decorates the storage of namespaced objects. It creates an object in a transaction that fails
// if the namespace was deleted after the plugin NamespaceLifecycle had checked it, for example while a webhook
// delayed the request. The namespace controller does not find such an object if it has already listed the content
// of the namespace. The object would remain, and would reappear in the next namespace with this name.
type namespacedStorage struct {
	storage.Interface
	resource schema.GroupResource
	// namespaces returns the storage of the namespaces.
	namespaces func() storage.Interface
}

// Create implements storage.Interface.
func (n *namespacedStorage) Create(ctx context.Context, obj codec.Object, options storage.WriteOptions) (*codec.Record, error) {
	options, err := n.addCondition(ctx, types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}, options)
	if err != nil {
		return nil, err
	}
	return n.Interface.Create(ctx, obj, options)
}

// Update implements storage.Interface. The condition applies if update creates the object.
func (n *namespacedStorage) Update(ctx context.Context, name types.NamespacedName, update storage.UpdateFunc, options storage.UpdateOptions) (*codec.Record, error) {
	conditional := func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		obj, write, err := update(current)
		if err != nil || current != nil || options.DryRun {
			return obj, write, err
		}
		write, err = n.addCondition(ctx, name, write)
		return obj, write, err
	}
	return n.Interface.Update(ctx, name, conditional, options)
}

// addCondition makes the creation of an object fail if its namespace does not exist or is terminating at the
// commit. It reads the namespace from the watch cache. The commit repeats the check if the namespace has changed
// since.
func (n *namespacedStorage) addCondition(ctx context.Context, name types.NamespacedName, options storage.WriteOptions) (storage.WriteOptions, error) {
	if options.DryRun {
		return options, nil
	}
	namespaces, namespace := n.namespaces(), types.NamespacedName{Name: name.Namespace}
	check := func(record *codec.Record) error { return n.check(record, name) }
	record, err := namespaces.Get(ctx, namespace, storage.ReadOptions{ResourceVersion: "0"})
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return options, err
	}
	if err := check(record); err != nil {
		return options, err
	}
	op, err := namespaces.Prepare(ctx, storage.OpRequest{Unchanged: &storage.Version{Name: namespace, Revision: record.Revision()}, Recheck: check})
	if err != nil {
		return options, err
	}
	options.With = append(options.With[:len(options.With):len(options.With)], op)
	return options, nil
}

// check returns the error of the plugin NamespaceLifecycle for the creation of an object in a namespace. record is
// nil if the namespace does not exist.
func (n *namespacedStorage) check(record *codec.Record, name types.NamespacedName) error {
	if record == nil {
		return rejectedByNamespace(apierrors.NewNotFound(corev1.Resource("namespaces"), name.Namespace))
	}
	namespace, err := codec.CachedAs[*corev1.Namespace](record)
	if err != nil {
		return err
	}
	if err := plugin.CheckTerminating(namespace, n.resource, name.Name); err != nil {
		return rejectedByNamespace(err)
	}
	return nil
}

func rejectedByNamespace(err error) error {
	return &admission.RejectionError{Plugin: namespaceLifecycle, Err: err}
}
