package registry

import (
	"context"
	"errors"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
)

// Transaction contains the writes that are committed together with an object, such as an allocated
// address or a quota charge.
type Transaction struct {
	// With contains writes of other objects. They are committed at the same revision as the
	// object, or not at all.
	With []*storage.Op
	// Rollback releases reservations outside the store, such as an entry of a bitmap in memory. It is called
	// once if the write fails or is a dry run. It is nil if there are no reservations.
	Rollback func()
}

// BeginTransactionFunc creates the Transaction of one attempt to write obj over old; obj is nil for a
// deletion, and old is nil for a creation. It may complete obj, for example with its address, before
// validating admission. An error rejects the write and should be an API error. With dryRun, no write follows.
// After a conflict, Rollback is called, and then the function is called again.
type BeginTransactionFunc func(ctx context.Context, obj, old codec.Object, dryRun bool) (Transaction, error)

// maxAttempts is the maximum number of attempts if other objects of the transaction change concurrently. With
// n writers of one quota, a writer loses at most about n-1 times in a row.
const maxAttempts = 64

// beginWrite returns the other writes of the transaction that writes obj over old. The write argument of
// transact calls it when obj is complete, except for changes by the transaction.
type beginWrite func(obj, old codec.Object) ([]*storage.Op, error)

func noTransaction(codec.Object, codec.Object) ([]*storage.Op, error) { return nil, nil }

// transact calls write, which writes an object together with the result of its beginWrite. It
// repeats the call up to maxAttempts times if it fails with an *storage.OpConflictError.
func (s *Store) transact(ctx context.Context, strategy *Strategy, dryRun bool, write func(beginWrite) error) error {
	if strategy.BeginTransaction == nil {
		return write(noTransaction)
	}
	var open Transaction
	rollback := func() {
		if open.Rollback != nil {
			open.Rollback()
		}
		open = Transaction{}
	}
	for attempt := 1; ; attempt++ {
		err := write(func(obj, old codec.Object) (_ []*storage.Op, err error) {
			rollback() // storage calls this function again if the object was outdated
			open, err = strategy.BeginTransaction(ctx, obj, old, dryRun)
			return open.With, err
		})
		if err == nil && !dryRun {
			return nil
		}
		rollback()
		if !errors.As(err, new(*storage.OpConflictError)) || attempt == maxAttempts {
			return err
		}
	}
}
