package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// ErrIncomplete reports that a migration to a prefix did not finish.
var ErrIncomplete = errors.New("the data is incomplete: a migration was interrupted")

// incompleteKey returns the key that marks a prefix during a migration to it. The key is outside
// the prefix, so that it is neither copied nor decoded as an object.
func incompleteKey(prefix string) string { return strings.TrimSuffix(prefix, "/") + ".incomplete" }

// SetIncomplete marks the data below a prefix as incomplete, or removes the mark. It has no effect
// if the mark already has the requested state. The mark is a key outside the prefix. It returns the
// errors of the read and of the write.
func (s *Store) SetIncomplete(ctx context.Context, prefix string, incomplete bool) error {
	op := kv.Op{Key: incompleteKey(prefix), Kind: kv.OpDelete, Expect: kv.AnyRevision}
	if incomplete {
		op = kv.Op{Key: op.Key, Value: []byte("mainstay migrate"), Expect: kv.AnyRevision}
	}
	if current, _, err := s.Get(ctx, op.Key, 0); err != nil || (current != nil) == incomplete {
		return err
	} else if current == nil {
		op.Expect = 0
	}
	if _, err := s.Commit(ctx, op); err != nil {
		return fmt.Errorf("mark the data below %s: %w", prefix, err)
	}
	return nil
}

// CheckComplete returns an error that wraps ErrIncomplete if the data below a prefix is marked as
// incomplete.
func (s *Store) CheckComplete(ctx context.Context, prefix string) error {
	mark, _, err := s.Get(ctx, incompleteKey(prefix), 0)
	if err != nil {
		return err
	}
	if mark != nil {
		return fmt.Errorf("%w; repeat mainstay migrate with --force, or delete the key %s if the data is to be used as it is", ErrIncomplete, mark.Key)
	}
	return nil
}
