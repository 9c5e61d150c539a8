package garbage

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/codec"
)

// finishForeground lets an owner go that no dependent blocks any more. Those that do
// were looked at when the deletion began, or when they came; each that goes brings the
// owner here again.
func (w *collection) finishForeground(ctx context.Context, p *present) error {
	if _, blocked := w.graph.has(uidOf(p.meta.UID)); blocked {
		return nil
	}
	return w.removeFinalizer(ctx, p, metav1.FinalizerDeleteDependents)
}

// orphan removes an owner from its dependents, and then lets it go.
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
