package registry

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage"
)

// Delete implements rest.GracefulDeleter. An object without finalizers and grace period is removed. Other
// objects receive a deletion timestamp. They are removed when their last finalizer is removed, or by another
// deletion with a grace period of zero.
func (s *Store) Delete(ctx context.Context, name types.NamespacedName, validate rest.ValidateObjectFunc, options metav1.DeleteOptions) (*codec.Record, bool, error) {
	record, effect, err := s.deleteOnce(ctx, name, validate, options)
	if err == nil && effect == markedToRemove {
		record, effect, err = s.removeMarked(ctx, record, options)
	}
	if err != nil {
		return nil, false, s.apiError(err, name.Name, "delete")
	}
	return record, effect == removed, nil
}

// deleteEffect is the effect of one write of a deletion.
type deleteEffect int

const (
	// marked means that the object has a deletion timestamp.
	marked deleteEffect = iota
	// markedToRemove means that the object has a deletion timestamp, and another write must remove it. As in
	// kube-apiserver, watches of a kind with grace periods receive the timestamp before the deletion, because
	// controllers wait for it.
	markedToRemove
	// removed means that the object is removed.
	removed
)

// deleteOnce performs the first or only write of a deletion.
func (s *Store) deleteOnce(ctx context.Context, name types.NamespacedName, validate rest.ValidateObjectFunc, options metav1.DeleteOptions) (record *codec.Record, effect deleteEffect, err error) {
	err = s.transact(ctx, s.Strategy, isDryRun(options.DryRun), func(begin beginWrite) (err error) {
		record, err = s.Storage.Update(ctx, name, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
			effect = marked
			if current == nil {
				return nil, storage.WriteOptions{}, storage.ErrNotFound
			}
			obj, toRemove, err := s.deletedState(ctx, current, validate, options)
			if err == nil {
				if toRemove {
					effect = markedToRemove
				}
				return obj, s.writeOptions(obj, options.DryRun), nil
			}
			var write storage.WriteOptions
			if errors.As(err, &storage.Remove{}) {
				effect = removed
				err = s.beginRemoval(current, begin, &write, err)
			}
			return nil, write, err
		}, storage.UpdateOptions{Preconditions: options.Preconditions, DryRun: isDryRun(options.DryRun)})
		return err
	})
	return record, effect, err
}

// removeMarked removes an object that deleteOnce has marked. If another client has removed it in the meantime,
// removeMarked returns the marked object.
func (s *Store) removeMarked(ctx context.Context, mark *codec.Record, options metav1.DeleteOptions) (*codec.Record, deleteEffect, error) {
	obj, err := mark.Shared()
	if err != nil {
		return nil, marked, err
	}
	uid := obj.GetUID()
	options.Preconditions = &metav1.Preconditions{UID: &uid} // a resourceVersion was checked before the mark
	record, effect, err := s.deleteOnce(ctx, mark.Name(), nil, options)
	if errors.Is(err, storage.ErrNotFound) || errors.As(err, new(*storage.PreconditionError)) {
		return mark, removed, nil
	}
	return record, effect, err
}

// DeleteCorrupt implements rest.CorruptDeleter. It skips admission, preconditions, finalizers and the other
// writes of the transaction, which require a readable object.
func (s *Store) DeleteCorrupt(ctx context.Context, name types.NamespacedName, options metav1.DeleteOptions) error {
	if _, err := s.Storage.DeleteCorrupt(ctx, name, isDryRun(options.DryRun)); err != nil {
		return s.apiError(err, name.Name, "delete")
	}
	return nil
}

// beginRemoval adds the writes of the transaction of a removal. It returns remove, or the error of
// the transaction.
func (s *Store) beginRemoval(current *codec.Record, begin beginWrite, write *storage.WriteOptions, remove error) error {
	if s.Strategy.BeginTransaction == nil {
		return remove
	}
	old, err := current.Shared()
	if err != nil {
		return err
	}
	if write.With, err = begin(nil, old); err != nil {
		return err
	}
	return remove
}

// deletedState returns the object with a deletion timestamp, or the error storage.Remove if the
// object can be removed immediately. toRemove is true if another write must remove the marked object.
func (s *Store) deletedState(ctx context.Context, current *codec.Record, validate rest.ValidateObjectFunc, options metav1.DeleteOptions) (obj codec.Object, toRemove bool, err error) {
	obj, err = current.Object()
	if err != nil {
		return nil, false, err
	}
	if validate != nil { // before the object is modified, so that it is decoded only once
		if err := validate(ctx, nil, obj); err != nil {
			return nil, false, err
		}
	}
	grace, change := s.Strategy.gracePeriod(obj, options.GracePeriodSeconds)
	if !change {
		return obj, false, nil
	}
	if !s.Deletion.IgnorePropagation {
		obj.SetFinalizers(s.Strategy.finalizersAfter(obj, options))
	}
	blocked := len(obj.GetFinalizers()) > 0 || s.Strategy.blocksRemoval(obj)
	toRemove = grace == 0 && !blocked
	if toRemove && s.Strategy.GracePeriod == nil {
		return nil, false, storage.Remove{}
	}
	isMarked := obj.GetDeletionTimestamp() != nil && hasNoGracePeriod(obj)
	s.Strategy.markDeleted(obj, grace, now(simulation.From(ctx)))
	if toRemove && (isMarked || isDryRun(options.DryRun)) {
		return nil, false, storage.Remove{Last: obj}
	}
	return obj, toRemove, nil
}

func hasNoGracePeriod(obj codec.Object) bool {
	announced := obj.GetDeletionGracePeriodSeconds()
	return announced == nil || *announced == 0
}

// gracePeriod returns the deletionGracePeriodSeconds of a deletion. change is false if the object is
// already marked for deletion and the request does not shorten the period.
func (s *Strategy) gracePeriod(obj codec.Object, requested *int64) (seconds int64, change bool) {
	if requested != nil && *requested < 0 {
		one := int64(1) // as in kube-apiserver, a negative period means one second
		requested = &one
	}
	if s.GracePeriod == nil {
		return 0, true
	}
	if obj.GetDeletionTimestamp() == nil {
		return s.GracePeriod(obj, requested), true
	}
	if hasNoGracePeriod(obj) { // a deletion has marked the object, but could not remove it
		return 0, true
	}
	announced := *obj.GetDeletionGracePeriodSeconds()
	if requested == nil || *requested >= announced {
		return announced, false
	}
	return *requested, true
}

// markDeleted sets the deletion metadata. The first call for an object increments its generation, if it has
// one.
func (s *Strategy) markDeleted(obj codec.Object, grace int64, now metav1.Time) {
	first := obj.GetDeletionTimestamp() == nil
	due := now.Add(time.Duration(grace) * time.Second)
	if !first {
		due = obj.GetDeletionTimestamp().Time
		if announced := obj.GetDeletionGracePeriodSeconds(); announced != nil {
			due = due.Add(time.Duration(grace-*announced) * time.Second)
		}
	}
	if first && obj.GetGeneration() > 0 {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
	obj.SetDeletionTimestamp(&metav1.Time{Time: due})
	obj.SetDeletionGracePeriodSeconds(&grace)
	if s.PrepareForDelete != nil {
		s.PrepareForDelete(obj)
	}
}

// finalizersAfter returns the finalizers after applying the propagation policy of the options.
// Without a policy, the previous choice remains.
func (s *Strategy) finalizersAfter(obj codec.Object, options metav1.DeleteOptions) []string {
	finalizers := obj.GetFinalizers()
	want := s.propagation(finalizers, options)
	kept := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	switch want {
	case metav1.DeletePropagationOrphan:
		kept = append(kept, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		kept = append(kept, metav1.FinalizerDeleteDependents)
	}
	// Only the last entry can be new.
	if len(kept) > 0 && len(kept) == len(finalizers) && want != metav1.DeletePropagationBackground && slices.Contains(finalizers, kept[len(kept)-1]) {
		return finalizers // the same set: keep the order
	}
	return kept
}

func (s *Strategy) propagation(finalizers []string, options metav1.DeleteOptions) metav1.DeletionPropagation {
	switch {
	case options.PropagationPolicy != nil:
		return *options.PropagationPolicy
	case options.OrphanDependents != nil && *options.OrphanDependents:
		return metav1.DeletePropagationOrphan
	case options.OrphanDependents != nil:
		return metav1.DeletePropagationBackground
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	case s.OrphanByDefault:
		return metav1.DeletePropagationOrphan
	}
	return metav1.DeletePropagationBackground
}
