package garbage

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
)

// maxAncestors is the maximum number of ancestors that isInCycle visits.
const maxAncestors = 100

// finishForeground completes the foreground deletion of an owner if no dependent blocks it. Otherwise, the
// deletion of each blocking dependent enqueues the owner again.
func (w *worker) finishForeground(ctx context.Context, p *storedObject) error {
	if _, blocked := w.graph.hasDependents(parseUID(p.meta.UID)); !blocked {
		return w.removeFinalizer(ctx, p, metav1.FinalizerDeleteDependents)
	}
	if circle, err := w.isInCycle(ctx, p); err != nil || !circle {
		return err
	}
	return w.clearBlockOwnerDeletion(ctx, p)
}

// isInCycle reports whether a terminating owner is its own ancestor. The objects in a cycle must not block each
// other; otherwise, none of them would ever be deleted.
func (w *worker) isInCycle(ctx context.Context, p *storedObject) (bool, error) {
	seen, next := map[string]bool{}, p.meta.Owners
	for len(next) > 0 && len(seen) < maxAncestors {
		owner := next[0]
		next = next[1:]
		if !owner.BlockOwnerDeletion || seen[owner.UID] || owner.UID == p.meta.UID && len(seen) == 0 {
			continue
		}
		if owner.UID == p.meta.UID {
			return true, nil
		}
		seen[owner.UID] = true
		o, terminating := w.graph.terminatingOwner(parseUID(owner.UID))
		if !terminating {
			continue
		}
		ancestor, err := w.readObject(ctx, o)
		if err != nil {
			return false, err
		}
		if ancestor != nil {
			next = append(slices.Clip(next), ancestor.meta.Owners...)
		}
	}
	return false, nil
}

// orphan removes an owner from the owner references of its dependents, and then completes the deletion of the
// owner. It does nothing while the graph is incomplete, because dependents that are missing from the graph
// would be deleted after the owner. Synced then enqueues the owner again.
func (w *worker) orphan(ctx context.Context, p *storedObject) error {
	dependents, complete := w.graph.dependents(parseUID(p.meta.UID))
	if !complete {
		return nil
	}
	var group errgroup.Group
	group.SetLimit(workers)
	for _, o := range dependents {
		group.Go(func() error {
			dependent, err := w.readObject(ctx, o)
			if err != nil || dependent == nil {
				return err
			}
			return w.removeOwners(ctx, dependent, func(owner *metav1.OwnerReference) bool { return string(owner.UID) != p.meta.UID })
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return w.removeFinalizer(ctx, p, metav1.FinalizerOrphanDependents)
}

func (w *worker) removeFinalizer(ctx context.Context, p *storedObject, finalizer string) error {
	return w.update(ctx, p, func(obj codec.Object) {
		obj.SetFinalizers(slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == finalizer }))
	})
}
