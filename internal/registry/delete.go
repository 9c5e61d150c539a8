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
	removed := false
	var record *codec.Record
	err := s.transact(ctx, s.Strategy, isDryRun(options.DryRun), func(begin beginWrite) (err error) {
		record, err = s.Storage.Update(ctx, name, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
			removed = false
			if current == nil {
				return nil, storage.WriteOptions{}, storage.ErrNotFound
			}
			obj, err := s.deletedState(ctx, current, validate, options)
			if err == nil {
				return obj, s.writeOptions(obj, options.DryRun), nil
			}
			var write storage.WriteOptions
			if removed = errors.As(err, &storage.Remove{}); removed {
				err = s.beginRemoval(current, begin, &write, err)
			}
			return nil, write, err
		}, storage.UpdateOptions{Preconditions: options.Preconditions, DryRun: isDryRun(options.DryRun)})
		return err
	})
	if err != nil {
		return nil, false, s.apiError(err, name.Name, "delete")
	}
	return record, removed, nil
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
// object can be removed immediately.
func (s *Store) deletedState(ctx context.Context, current *codec.Record, validate rest.ValidateObjectFunc, options metav1.DeleteOptions) (codec.Object, error) {
	obj, err := current.Object()
	if err != nil {
		return nil, err
	}
	if validate != nil { // before the object is modified, so that it is decoded only once
		if err := validate(ctx, nil, obj); err != nil {
			return nil, err
		}
	}
	grace, change := s.Strategy.gracePeriod(obj, options.GracePeriodSeconds)
	if !change {
		return obj, nil
	}
	if !s.Deletion.IgnorePropagation {
		obj.SetFinalizers(s.Strategy.finalizersAfter(obj, options))
	}
	blocked := len(obj.GetFinalizers()) > 0 || s.Strategy.blocksRemoval(obj)
	if grace == 0 && !blocked && s.Strategy.GracePeriod == nil {
		return nil, storage.Remove{}
	}
	s.Strategy.markDeleted(obj, grace, now(simulation.From(ctx)))
	if grace == 0 && !blocked {
		return nil, storage.Remove{Last: obj} // kinds with grace periods return an object with a period of 0
	}
	return obj, nil
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
	announced := obj.GetDeletionGracePeriodSeconds()
	switch {
	case announced == nil:
		return 0, true
	case requested == nil, *requested >= *announced:
		return *announced, false
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
