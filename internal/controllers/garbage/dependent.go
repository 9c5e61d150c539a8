package garbage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// unknownKindDelay is the delay before another lookup of an owner of an unknown kind, whose
// definition may return.
const unknownKindDelay = time.Minute

// present is an object as it is stored now.
type present struct {
	object
	resource changes.Resource
	name     types.NamespacedName
	meta     changes.Meta
	revision kv.Revision
}

// read returns a stored object; nil if the object or its resource does not exist.
func (w *collection) read(ctx context.Context, o object) (*present, error) {
	path, namespace, name := w.graph.names(o)
	resource, ok := w.config.OfPath(path)
	if !ok {
		return nil, nil
	}
	meta, revision, err := w.stored(ctx, resource, namespace, name)
	if err != nil || revision == 0 {
		return nil, err
	}
	return &present{o, resource, types.NamespacedName{Namespace: namespace, Name: name}, meta, revision}, nil
}

// stored reads the metadata of an object. The revision is 0 if it does not exist.
func (w *collection) stored(ctx context.Context, r changes.Resource, namespace, name string) (meta changes.Meta, revision kv.Revision, err error) {
	entry, _, err := r.Backend.Get(ctx, r.Key(w.config.Prefix, namespace, name), 0)
	if err != nil || entry == nil {
		return meta, 0, err
	}
	meta, err = changes.MetaOf(w.config.Decrypt.Of(ctx, entry.Key, entry.Value))
	return meta, entry.Modified, err
}

func (p *present) String() string { return p.resource.GroupResource().String() + " " + p.name.String() }

// look processes an object.
func (w *collection) look(ctx context.Context, o object) error {
	p, err := w.read(ctx, o)
	if err != nil || p == nil {
		return err
	}
	switch policyOf(&p.meta) {
	case metav1.DeletePropagationOrphan:
		return w.orphan(ctx, p)
	case metav1.DeletePropagationForeground:
		return w.finishForeground(ctx, p)
	}
	if p.meta.Deleting || len(p.meta.Owners) == 0 {
		return nil
	}
	return w.dependent(ctx, p)
}

// owners are the owners of a dependent by their state.
type owners struct {
	solid, dangling []changes.Owner
	waiting         []changes.Owner // for their dependents to be deleted
}

// namespacedOwnerError: an object without a namespace names an owner that is in one.
type namespacedOwnerError struct{ owner changes.Owner }

func (*namespacedOwnerError) Error() string {
	return "a cluster-scoped object names a namespaced owner"
}

// dependent deletes an object whose owners do not exist or wait for it. If it has other owners, it
// removes the references to the missing ones.
func (w *collection) dependent(ctx context.Context, p *present) error {
	found, err := w.ownersOf(ctx, p)
	var namespaced *namespacedOwnerError
	if errors.As(err, &namespaced) {
		w.config.Logger.Info("a cluster-scoped object has an owner in a namespace and is never collected", "object", p.String())
		w.warn(ctx, p, namespaced.owner)
		return nil
	}
	if err != nil {
		return err
	}
	gone := slices.Concat(found.dangling, found.waiting)
	switch {
	case len(found.solid) > 0 && len(gone) == 0:
		return nil
	case len(found.solid) > 0:
		return w.disown(ctx, p, func(owner *metav1.OwnerReference) bool {
			return !slices.ContainsFunc(gone, func(g changes.Owner) bool { return g.UID == string(owner.UID) })
		})
	}
	if any, _ := w.graph.has(uidOf(p.meta.UID)); len(found.waiting) > 0 && any {
		return w.deleteForeground(ctx, p)
	}
	return w.delete(ctx, p, ownPolicy(&p.meta))
}

// ownersOf looks up the owners of a dependent.
func (w *collection) ownersOf(ctx context.Context, p *present) (found owners, err error) {
	for _, owner := range p.meta.Owners {
		resource, ok := w.config.OfKind(owner.APIVersion, owner.Kind)
		if !ok {
			return found, &work.LaterError{After: unknownKindDelay, Err: fmt.Errorf("%s names an owner of the unknown kind %s of %s", p, owner.Kind, owner.APIVersion)}
		}
		namespace := p.name.Namespace
		switch {
		case !resource.Namespaced:
			namespace = ""
		case namespace == "":
			return found, &namespacedOwnerError{owner}
		}
		known := absentOwner{resource.Path, namespace, owner.Name, owner.UID}
		if w.absent.has(known) {
			found.dangling = append(found.dangling, owner)
			continue
		}
		since := w.living.since()
		meta, revision, err := w.stored(ctx, resource, namespace, owner.Name)
		switch {
		case err != nil:
			return found, fmt.Errorf("look up the owner %s %s of %s: %w", owner.Kind, owner.Name, p, err)
		case revision == 0 || meta.UID != owner.UID:
			w.absent.add(known)
			w.warnElsewhere(ctx, p, resource, owner)
			found.dangling = append(found.dangling, owner)
		case policyOf(&meta) == metav1.DeletePropagationForeground:
			found.waiting = append(found.waiting, owner)
		default:
			found.solid = append(found.solid, owner)
			w.living.add(owner, p.name.Namespace, since)
		}
	}
	return found, nil
}

// ownPolicy is the propagation that the finalizers of an object ask for.
func ownPolicy(m *changes.Meta) metav1.DeletionPropagation {
	switch {
	case slices.Contains(m.Finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(m.Finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// deleteForeground deletes a dependent that has dependents. In a cycle, it must not block its
// owner, because none of them would ever be deleted.
func (w *collection) deleteForeground(ctx context.Context, p *present) error {
	if slices.ContainsFunc(w.graph.dependents(uidOf(p.meta.UID)), w.graph.isDying) {
		if err := w.unblock(ctx, p); err != nil {
			return err
		}
		return w.delete(ctx, &present{object: p.object, resource: p.resource, name: p.name, meta: p.meta}, metav1.DeletePropagationForeground)
	}
	return w.delete(ctx, p, metav1.DeletePropagationForeground)
}

// delete deletes an object if it is still as it was read.
func (w *collection) delete(ctx context.Context, p *present, policy metav1.DeletionPropagation) error {
	id := types.UID(p.meta.UID)
	conditions := &metav1.Preconditions{UID: &id}
	if p.revision > 0 {
		conditions.ResourceVersion = new(strconv.FormatInt(int64(p.revision), 10))
	}
	err := w.client(p).Delete(ctx, p.name, metav1.DeleteOptions{Preconditions: conditions, PropagationPolicy: &policy})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", p, err)
	}
	return nil
}

// disown removes the owner references that keep does not want.
func (w *collection) disown(ctx context.Context, p *present, keep func(*metav1.OwnerReference) bool) error {
	return w.update(ctx, p, func(obj codec.Object) {
		references := obj.GetOwnerReferences()
		kept := references[:0:0]
		for i := range references {
			if keep(&references[i]) {
				kept = append(kept, references[i])
			}
		}
		obj.SetOwnerReferences(kept)
	})
}

// unblock permits the deletion of an object's owners before it.
func (w *collection) unblock(ctx context.Context, p *present) error {
	return w.update(ctx, p, func(obj codec.Object) {
		references := slices.Clone(obj.GetOwnerReferences())
		for i := range references {
			if references[i].BlockOwnerDeletion != nil {
				references[i].BlockOwnerDeletion = new(false)
			}
		}
		obj.SetOwnerReferences(references)
	})
}

// errOther: there is another object of the name by now, or a cache has the one before
// it. Either is looked at again.
var errOther = errors.New("it is another object")

// update updates an object, unless it was deleted.
func (w *collection) update(ctx context.Context, p *present, change func(codec.Object)) error {
	_, err := w.client(p).Update(ctx, p.name, func(obj codec.Object) error {
		if string(obj.GetUID()) != p.meta.UID {
			return errOther
		}
		change(obj)
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("update %s: %w", p, err)
	}
	return nil
}

func (w *collection) client(p *present) *loopback.Client[codec.Object] {
	return loopback.For[codec.Object](w.access, p.resource.GVR())
}
