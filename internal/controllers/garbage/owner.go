package garbage

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
)

// maxAncestors bounds the search for an owner among its own owners.
const maxAncestors = 100

// finishForeground completes the deletion of an owner without blocking dependents. Blocking
// dependents were enqueued at the start of the deletion or at their creation; the deletion of each
// enqueues the owner again.
func (w *collection) finishForeground(ctx context.Context, p *present) error {
	if _, blocked := w.graph.has(uidOf(p.meta.UID)); !blocked {
		return w.removeFinalizer(ctx, p, metav1.FinalizerDeleteDependents)
	}
	if circle, err := w.inCircle(ctx, p); err != nil || !circle {
		return err
	}
	return w.unblock(ctx, p)
}

// inCircle reports whether a waiting owner is in a cycle of waiting objects, in which it must not
// block, because none of them would ever be deleted.
func (w *collection) inCircle(ctx context.Context, p *present) (bool, error) {
	seen, next := map[string]bool{}, p.meta.Owners
	for len(next) > 0 && len(seen) < maxAncestors {
		owner := next[0]
		next = next[1:]
		if !owner.Blocks || seen[owner.UID] || owner.UID == p.meta.UID && len(seen) == 0 {
			continue
		}
		if owner.UID == p.meta.UID {
			return true, nil
		}
		seen[owner.UID] = true
		o, dying := w.graph.dying(uidOf(owner.UID))
		if !dying {
			continue
		}
		ancestor, err := w.read(ctx, o)
		if err != nil {
			return false, err
		}
		if ancestor != nil {
			next = append(slices.Clip(next), ancestor.meta.Owners...)
		}
	}
	return false, nil
}

// orphan removes an owner from its dependents, and then completes its deletion.
func (w *collection) orphan(ctx context.Context, p *present) error {
	var group errgroup.Group
	group.SetLimit(workers)
	for _, o := range w.graph.dependents(uidOf(p.meta.UID)) {
		group.Go(func() error {
			dependent, err := w.read(ctx, o)
			if err != nil || dependent == nil {
				return err
			}
			return w.disown(ctx, dependent, func(owner *metav1.OwnerReference) bool { return string(owner.UID) != p.meta.UID })
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return w.removeFinalizer(ctx, p, metav1.FinalizerOrphanDependents)
}

func (w *collection) removeFinalizer(ctx context.Context, p *present, finalizer string) error {
	return w.update(ctx, p, func(obj codec.Object) {
		obj.SetFinalizers(slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == finalizer }))
	})
}
