package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// DeleteCollection implements rest.CollectionDeleter. It skips objects that are deleted concurrently. The
// first error ends the operation; earlier deletions stay in effect. validate is called concurrently if
// Deletion.Workers is greater than 1.
func (s *Store) DeleteCollection(ctx context.Context, namespace string, validate rest.ValidateObjectFunc, options metav1.DeleteOptions, list rest.ListOptions) (*rest.List, error) {
	found, err := s.List(ctx, namespace, list)
	if err != nil {
		return nil, err
	}
	deleteRecord := func(ctx context.Context, record *codec.Record) error {
		_, _, err := s.Delete(ctx, record.Name(), validate, options)
		if isNotFound(err) {
			return nil
		}
		return err
	}
	deleted, err := s.Deletion.deleteAll(ctx, found, deleteRecord)
	if err != nil {
		return nil, err
	}
	return &rest.List{Revision: found.Revision, Continue: found.Continue, Remaining: found.Remaining,
		Items: func(yield func(*codec.Record, error) bool) {
			for _, record := range deleted {
				if !yield(record, nil) {
					return
				}
			}
		}}, nil
}

// deleteAll calls deleteRecord for all records of a list, with up to d.Workers concurrent calls, and returns
// the records. The first error ends the calls. deleteAll panics if deleteRecord panics.
func (d *Deletion) deleteAll(ctx context.Context, list *rest.List, deleteRecord func(context.Context, *codec.Record) error) (records []*codec.Record, err error) {
	start, wait := deleteRecord, func() error { return nil }
	if workers := min(d.Workers, MaxDeletionWorkers); workers > 1 {
		var group *errgroup.Group
		group, ctx = errgroup.WithContext(ctx)
		group.SetLimit(workers)
		start = func(ctx context.Context, record *codec.Record) error {
			group.Go(func() (err error) {
				defer func() {
					if value := recover(); value != nil {
						err = &panicError{value}
					}
				}()
				return deleteRecord(ctx, record)
			})
			return nil
		}
		wait = group.Wait
	}
	for record, err := range list.Items {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			records = append(records, record)
			err = start(ctx, record)
		}
		if err != nil {
			return nil, cmp.Or(repanic(wait()), err)
		}
	}
	return records, repanic(wait())
}

// panicError is the error of a goroutine that panicked.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// repanic panics with the value of a panicError, and returns all other errors.
func repanic(err error) error {
	var panicked *panicError
	if errors.As(err, &panicked) {
		panic(panicked.value)
	}
	return err
}
