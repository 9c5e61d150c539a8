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

// startFinalizing begins to delete the objects of a deleted definition, and then the
// definition. Of many that are deleted at once, few are worked on at a time.
func (l *loop) startFinalizing(ctx context.Context, name string, uid types.UID) {
	if l.finalizing[uid] {
		return
	}
	l.finalizing[uid] = true
	l.finalizers.Go(func() { // objects with finalizers are waited for
		retry(ctx, func() bool { return l.finalize(ctx, name, uid) })
	})
}

// finalize reports whether no objects are left.
func (l *loop) finalize(ctx context.Context, name string, uid types.UID) bool {
	select {
	case l.atWork <- struct{}{}:
		defer func() { <-l.atWork }()
	case <-ctx.Done():
		return false
	}
	left, err := l.finalizeOnce(ctx, name, uid)
	if err != nil && ctx.Err() == nil {
		l.logger.Warn("the objects of a definition cannot be removed yet", "definition", name, "err", err)
	}
	return err == nil && !left
}

// finalizeOnce deletes all deletable objects; left reports that objects remain.
func (l *loop) finalizeOnce(ctx context.Context, name string, uid types.UID) (left bool, err error) {
	crd, err := l.readHead(ctx, name)
	if errors.Is(err, storage.ErrNotFound) || err == nil && (crd.UID != uid || !slices.Contains(crd.Finalizers, definition.CleanupFinalizer)) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	// Established or not: the condition may have been taken away again.
	if !l.config.PathShared(storagePath(schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural})) {
		if left, err = l.deleteObjects(ctx, crd); left || err != nil {
			return true, err
		}
	}
	if len(crd.Finalizers) == 1 {
		l.setHidden(name, uid, true)
	}
	_, err = l.config.Definitions.Update(ctx, types.NamespacedName{Name: name}, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		return withoutFinalizer(current, uid)
	}, storage.UpdateOptions{})
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		l.setHidden(name, uid, false)
		return true, fmt.Errorf("let go of definition %s: %w", name, err)
	}
	return false, nil
}

// readHead returns a definition as it is stored, without its schemas.
func (l *loop) readHead(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	record, err := l.stored(ctx, name)
	if err != nil {
		return nil, err
	}
	return headOf(record)
}

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
		return nil, storage.WriteOptions{}, storage.Remove{Last: crd} // shown as it last was, finalizer and all
	}
	crd.Finalizers = left
	return crd, storage.WriteOptions{}, nil
}

// deleteObjects requests the deletion of all objects.
func (l *loop) deleteObjects(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) (left bool, err error) {
	e := l.current.Load().find(crd.Spec.Group, crd.Spec.Names.Plural)
	if e == nil || e.uid != crd.UID || len(e.versions) == 0 {
		return false, fmt.Errorf("definition %s is not known yet", crd.Name)
	}
	e.barrier.close()
	e.barrier.wait()
	in := newVersionResources(l.Source, e, e.storageVersion())
	in.uncached = true
	objects := instances{in.handler}
	everything := rest.ListOptions{}
	deleted, err := objects.DeleteCollection(ctx, "", nil, metav1.DeleteOptions{}, everything)
	if err != nil {
		return true, fmt.Errorf("delete the objects: %w", err)
	}
	any := false
	for range deleted.Items {
		any = true
	}
	if !any {
		return false, nil
	}
	if _, err := l.write(ctx, crd.Name, nil, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return definition.SetCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue,
			Reason: "InstanceDeletionInProgress", Message: "CustomResource deletion is in progress",
		}, l.now())
	}); err != nil {
		return true, fmt.Errorf("write the status of definition %s: %w", crd.Name, err)
	}
	list, err := objects.List(ctx, "", rest.ListOptions{Limit: 1})
	if err != nil {
		return true, fmt.Errorf("look for objects: %w", err)
	}
	for range list.Items {
		return true, nil
	}
	return false, nil
}
