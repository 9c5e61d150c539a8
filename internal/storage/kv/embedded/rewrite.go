package embedded

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// RewriteOlder replaces the values of versions that are not the newest versions of their keys. After Compact,
// only pins retain such versions; without pins, RewriteOlder does nothing. rewrite returns the new value, or
// nil to leave the value unchanged; it must not modify the entry or call the store. No history is deleted
// while RewriteOlder runs, because writing the new value of a deleted version would restore that version. The
// next Purge makes the change durable and removes the replaced values from the tables. If rewrite returns an
// error, RewriteOlder stops and returns it unchanged.
func (s *Store) RewriteOlder(ctx context.Context, rewrite func(*kv.Entry) ([]byte, error)) error {
	if len(*s.pins.Load()) == 0 {
		return nil
	}
	s.history.Lock()
	defer s.history.Unlock()
	e, err := s.acquireForWrite()
	if err != nil {
		return err
	}
	defer s.release()
	bounds := versionkey.Bounds("", "")
	it, err := e.db.NewIter(&bounds)
	if err != nil {
		return e.wrapError("rewrite", err)
	}
	defer it.Close()
	b := e.db.NewBatch()
	defer func() { _ = b.Close() }()
	newest := ""
	for ok := it.First(); ok; ok = it.Next() {
		if err := errors.Join(ctx.Err(), s.ctx.Err()); err != nil {
			return err
		}
		key, rev, err := versionkey.Split(it.Key())
		if err != nil {
			return e.wrapError("rewrite", err)
		}
		if string(key) != newest {
			newest = string(key)
			continue
		}
		if err := e.rewriteVersion(b, it, newest, rev, rewrite); err != nil {
			return err
		}
		if b.Len() < snapshotChunk {
			continue
		}
		if err := e.db.Apply(b, pebble.NoSync); err != nil {
			return e.wrapError("rewrite", err)
		}
		b.Reset()
	}
	return e.wrapError("rewrite", errors.Join(it.Error(), e.db.Apply(b, pebble.NoSync)))
}

// rewriteVersion adds the new value of the version at the iterator to a batch. It deletes the old value
// first, because compactions delete versions with SingleDelete, which removes only one of several values.
func (e *engine) rewriteVersion(b *pebble.Batch, it *pebble.Iterator, key string, rev kv.Revision, rewrite func(*kv.Entry) ([]byte, error)) error {
	raw, err := it.ValueAndErr()
	if err != nil {
		return e.wrapError("rewrite", err)
	}
	v, err := decodeVersion(key, rev, raw)
	if err != nil || v.entry == nil {
		return e.wrapError("rewrite", err)
	}
	next, err := rewrite(v.entry)
	if err != nil || next == nil {
		return err
	}
	if err := b.Delete(it.Key(), nil); err != nil {
		return e.wrapError("rewrite", err)
	}
	rewritten := *v.entry
	rewritten.Value = next
	putVersion(b, &rewritten, v.expires)
	return nil
}
