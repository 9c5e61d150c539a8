package registry

import (
	"context"
	"errors"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
)

// Transaction is what is written together with an object: an address that it is
// allocated, a quota that it is charged to.
type Transaction struct {
	// With are writes of other objects, committed at the revision of the object's
	// own write, or not at all.
	With []*storage.Op
	// Rollback takes back what was reserved outside the store, such as an entry of
	// a bitmap in memory. It is called once, where the write does not take place;
	// nil: there is nothing to take back.
	Rollback func()
}

// Begin makes the Transaction of one attempt at a write: of obj over old, where
// obj is nil for a deletion and old for a creation. It may complete obj, by the
// address it was given say; validating admission sees the result. An error
// refuses the write, and should be an API error. With dryRun nothing will be
// written. Begin is called again, after Rollback, where one of the objects has
// changed before the commit.
type Begin func(ctx context.Context, obj, old codec.Object, dryRun bool) (Transaction, error)

// maxAttempts is how often a write is tried whose other objects keep changing:
// with n writers of one quota, a writer loses at most n-1 times in a row, or
// nearly so.
const maxAttempts = 64

// begin is what a write calls once it has an object ready.
type begin func(obj, old codec.Object) ([]*storage.Op, error)

func nothingBegun(codec.Object, codec.Object) ([]*storage.Op, error) { return nil, nil }

// transact calls write, which writes one object and what begin returns with it,
// again for as long as it fails with an *storage.OpConflictError.
func (s *Store) transact(ctx context.Context, strategy *Strategy, dryRun bool, write func(begin) error) error {
	if strategy.Begin == nil {
		return write(nothingBegun)
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
			rollback() // of a state of the object that was not the newest
			open, err = strategy.Begin(ctx, obj, old, dryRun)
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
