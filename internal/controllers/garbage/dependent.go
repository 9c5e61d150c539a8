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

// unknownKindDelay is the retry delay if the kind of an owner is unknown. The definition of the kind may be
// created later.
const unknownKindDelay = time.Minute

// storedObject is an object with the metadata that was read from storage.
type storedObject struct {
	object
	resource changes.Resource
	name     types.NamespacedName
	meta     changes.Meta
	revision kv.Revision
}

// readObject returns a stored object, or nil if the object or its resource does not exist.
func (w *worker) readObject(ctx context.Context, o object) (*storedObject, error) {
	path, namespace, name := w.graph.location(o)
	resource, ok := w.config.ResourceByPath(path)
	if !ok {
		return nil, nil
	}
	meta, revision, err := w.readMeta(ctx, resource, namespace, name)
	if err != nil || revision == 0 {
		return nil, err
	}
	return &storedObject{o, resource, types.NamespacedName{Namespace: namespace, Name: name}, meta, revision}, nil
}

// readMeta reads the metadata of an object from storage. The revision is 0 if the object does not
// exist.
func (w *worker) readMeta(ctx context.Context, r changes.Resource, namespace, name string) (meta changes.Meta, revision kv.Revision, err error) {
	entry, _, err := r.Backend.Get(ctx, r.Key(w.config.Prefix, namespace, name), 0)
	if err != nil || entry == nil {
		return meta, 0, err
	}
	meta, err = changes.ParseMeta(w.config.Decrypt.Value(ctx, entry.Key, entry.Value))
	return meta, entry.Modified, err
}

func (p *storedObject) String() string {
	return p.resource.GroupResource().String() + " " + p.name.String()
}

// process completes a pending foreground or orphan deletion of an object. For other objects, it checks the
// owners.
func (w *worker) process(ctx context.Context, o object) error {
	p, err := w.readObject(ctx, o)
	if err != nil || p == nil {
		return err
	}
	switch pendingPolicy(&p.meta) {
	case metav1.DeletePropagationOrphan:
		return w.orphan(ctx, p)
	case metav1.DeletePropagationForeground:
		return w.finishForeground(ctx, p)
	}
	if p.meta.Deleting || len(p.meta.Owners) == 0 {
		return nil
	}
	return w.processDependent(ctx, p)
}

// owners contains the owners of a dependent, grouped by their state. Solid owners exist, and dangling owners do
// not exist.
type owners struct {
	solid, dangling []changes.Owner
	waiting         []changes.Owner // owners in foreground deletion
}

// namespacedOwnerError is returned if a cluster-scoped object has a namespaced owner.
type namespacedOwnerError struct{ owner changes.Owner }

func (*namespacedOwnerError) Error() string {
	return "a cluster-scoped object names a namespaced owner"
}

// processDependent deletes an object if all of its owners are missing or in foreground deletion. If the object
// has other owners as well, it removes the references to owners that are missing or in foreground deletion.
func (w *worker) processDependent(ctx context.Context, p *storedObject) error {
	found, err := w.ownersOf(ctx, p)
	var namespaced *namespacedOwnerError
	if errors.As(err, &namespaced) {
		w.config.Logger.Info("a cluster-scoped object has an owner in a namespace and is never collected", "object", p.String())
		w.recordEvent(ctx, p, namespaced.owner)
		return nil
	}
	if err != nil {
		return err
	}
	removed := slices.Concat(found.dangling, found.waiting)
	switch {
	case len(found.solid) > 0 && len(removed) == 0:
		return nil
	case len(found.solid) > 0:
		uids := make(map[types.UID]bool, len(removed))
		for _, owner := range removed {
			uids[types.UID(owner.UID)] = true
		}
		return w.removeOwners(ctx, p, func(owner *metav1.OwnerReference) bool { return !uids[owner.UID] })
	}
	if any, _ := w.graph.hasDependents(parseUID(p.meta.UID)); len(found.waiting) > 0 && any {
		return w.deleteForeground(ctx, p)
	}
	return w.delete(ctx, p, finalizerPolicy(&p.meta))
}

// ownersOf looks up the owners of a dependent. It returns a *namespacedOwnerError if a cluster-scoped dependent
// has a namespaced owner, and a *work.RetryError if the kind of an owner is unknown.
func (w *worker) ownersOf(ctx context.Context, p *storedObject) (found owners, err error) {
	for _, owner := range p.meta.Owners {
		resource, ok := w.config.ResourceByKind(owner.APIVersion, owner.Kind)
		if !ok {
			return found, &work.RetryError{After: unknownKindDelay, Err: fmt.Errorf("%s names an owner of the unknown kind %s of %s", p, owner.Kind, owner.APIVersion)}
		}
		namespace := p.name.Namespace
		switch {
		case !resource.Namespaced:
			namespace = ""
		case namespace == "":
			return found, &namespacedOwnerError{owner}
		}
		known := missingOwner{resource.Path, namespace, owner.Name, owner.UID}
		if w.missing.has(known) {
			found.dangling = append(found.dangling, owner)
			continue
		}
		since, created := w.live.currentGeneration(), w.missing.currentGeneration()
		meta, revision, err := w.readMeta(ctx, resource, namespace, owner.Name)
		switch {
		case err != nil:
			return found, fmt.Errorf("look up the owner %s %s of %s: %w", owner.Kind, owner.Name, p, err)
		case revision == 0 || meta.UID != owner.UID:
			w.missing.add(known, created)
			w.warnIfInOtherNamespace(ctx, p, resource, owner)
			found.dangling = append(found.dangling, owner)
		case pendingPolicy(&meta) == metav1.DeletePropagationForeground:
			found.waiting = append(found.waiting, owner)
		default:
			found.solid = append(found.solid, owner)
			w.live.add(owner, p.name.Namespace, since)
		}
	}
	return found, nil
}

// finalizerPolicy returns the propagation policy that the finalizers of an object select.
func finalizerPolicy(m *changes.Meta) metav1.DeletionPropagation {
	switch {
	case slices.Contains(m.Finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(m.Finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// deleteForeground deletes an object that has dependents of its own. If one of these dependents is terminating,
// the objects may form a cycle. In this case, the object must not block its owner; otherwise, none of the
// objects would ever be deleted.
func (w *worker) deleteForeground(ctx context.Context, p *storedObject) error {
	dependents, _ := w.graph.dependents(parseUID(p.meta.UID))
	if slices.ContainsFunc(dependents, w.graph.isTerminating) {
		if err := w.clearBlockOwnerDeletion(ctx, p); err != nil {
			return err
		}
		return w.delete(ctx, &storedObject{object: p.object, resource: p.resource, name: p.name, meta: p.meta}, metav1.DeletePropagationForeground)
	}
	return w.delete(ctx, p, metav1.DeletePropagationForeground)
}

// delete deletes an object if it has not changed since it was read. If p.revision is 0, delete checks only the
// UID.
func (w *worker) delete(ctx context.Context, p *storedObject, policy metav1.DeletionPropagation) error {
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

// removeOwners removes the owner references of an object for which keep returns false.
func (w *worker) removeOwners(ctx context.Context, p *storedObject, keep func(*metav1.OwnerReference) bool) error {
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

// clearBlockOwnerDeletion sets blockOwnerDeletion to false in all owner references of an object.
func (w *worker) clearBlockOwnerDeletion(ctx context.Context, p *storedObject) error {
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

// errReplaced is returned if another object with the same name has replaced the object, or if a cache is
// outdated. The queue retries the key.
var errReplaced = errors.New("another object has the same name")

// update updates an object. It does nothing if the object does not exist any more.
func (w *worker) update(ctx context.Context, p *storedObject, change func(codec.Object)) error {
	_, err := w.client(p).Update(ctx, p.name, func(obj codec.Object) error {
		if string(obj.GetUID()) != p.meta.UID {
			return errReplaced
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

func (w *worker) client(p *storedObject) *loopback.Client[codec.Object] {
	return loopback.For[codec.Object](w.access, p.resource.GVR())
}
