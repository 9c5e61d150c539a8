package custom

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// finalize starts the task that deletes the objects of a terminating definition and then the definition. It
// does nothing if the task was started before. The task is repeated while objects with finalizers remain.
func (c *controller) finalize(ctx context.Context, name string, uid types.UID) {
	if c.finalizing[uid] {
		return
	}
	c.finalizing[uid] = true
	c.startFinalization(ctx, func() bool {
		done, err := c.finalizeOnce(ctx, name, uid)
		if err != nil && ctx.Err() == nil {
			c.logger.Warn("finalization of a definition failed, retrying", "definition", name, "err", err)
		}
		return done && err == nil
	})
}

// finalizeOnce requests the deletion of all objects of a definition. If no objects remain, it deletes the
// definition, or only removes its own finalizer if there are other finalizers. done is true if this or another
// server has removed the finalizer or the definition.
func (c *controller) finalizeOnce(ctx context.Context, name string, uid types.UID) (done bool, err error) {
	crd, err := c.read(ctx, name, "schema")
	if errors.Is(err, storage.ErrNotFound) || err == nil && (crd.UID != uid || !slices.Contains(crd.Finalizers, definition.CleanupFinalizer)) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	// The definition may have objects even if it is not established, because a client can remove the condition.
	if !c.config.PathShared(storagePath(schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural})) {
		if left, err := c.deleteObjects(ctx, crd); left || err != nil {
			return false, err
		}
	}
	if len(crd.Finalizers) == 1 {
		c.setRemoving(name, uid, true)
	}
	_, err = c.config.Definitions.Update(ctx, types.NamespacedName{Name: name}, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		return withoutFinalizer(current, uid)
	}, storage.UpdateOptions{})
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		c.setRemoving(name, uid, false)
		return false, fmt.Errorf("remove the finalizer of definition %s: %w", name, err)
	}
	return true, nil
}

// withoutFinalizer returns the definition without the finalizer of the server, or storage.Remove if it has no
// other finalizer. It returns storage.ErrNotFound if there is no definition with the UID.
func withoutFinalizer(current *codec.Record, uid types.UID) (codec.Object, storage.WriteOptions, error) {
	if current == nil {
		return nil, storage.WriteOptions{}, storage.ErrNotFound
	}
	obj, err := current.Object()
	if err != nil {
		return nil, storage.WriteOptions{}, err
	}
	crd := obj.(*apiextensionsv1.CustomResourceDefinition)
	if crd.UID != uid {
		return nil, storage.WriteOptions{}, storage.ErrNotFound
	}
	left := slices.DeleteFunc(slices.Clone(crd.Finalizers), func(f string) bool { return f == definition.CleanupFinalizer })
	if len(left) == 0 {
		// As in kube-apiserver, the object in the deletion event still has its finalizer.
		return nil, storage.WriteOptions{}, storage.Remove{Last: crd}
	}
	crd.Finalizers = left
	return crd, storage.WriteOptions{}, nil
}

// deleteObjects waits for creations in progress, and requests the deletion of all objects. left
// reports whether objects remain, because of finalizers.
func (c *controller) deleteObjects(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) (left bool, err error) {
	e := c.current.Load().find(crd.Spec.Group, crd.Spec.Names.Plural)
	if e == nil || e.uid != crd.UID || len(e.versions) == 0 {
		return false, fmt.Errorf("definition %s is not in the snapshot", crd.Name)
	}
	if err := e.creates.drain(ctx); err != nil {
		return true, fmt.Errorf("wait for creations of objects: %w", err)
	}
	version := newVersionResources(c.Source, e, e.storageVersion())
	version.finalizing = true
	objects := instances{version.handler}
	deleted, err := objects.DeleteCollection(ctx, "", nil, metav1.DeleteOptions{}, rest.ListOptions{})
	if err != nil {
		return true, fmt.Errorf("delete the objects: %w", err)
	}
	if isEmpty(deleted) {
		return false, nil
	}
	if _, err := c.updateStatus(ctx, crd.Name, nil, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return definition.SetCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue,
			Reason: "InstanceDeletionInProgress", Message: "CustomResource deletion is in progress",
		}, c.now())
	}); err != nil {
		return true, fmt.Errorf("write the status of definition %s: %w", crd.Name, err)
	}
	remaining, err := objects.List(ctx, "", rest.ListOptions{Limit: 1})
	if err != nil {
		return true, fmt.Errorf("list the remaining objects: %w", err)
	}
	return !isEmpty(remaining), nil
}

// isEmpty reports whether a list has no items. It reads all items, because DeleteCollection deletes each object
// during the iteration.
func isEmpty(list *rest.List) bool {
	empty := true
	for range list.Items {
		empty = false
	}
	return empty
}
