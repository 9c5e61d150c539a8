package embedded

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// trimBytes is the maximum size of one step that deletes history, in bytes. It is small compared with a
// memtable, so that commits can run between the steps.
const trimBytes = 64 << 10

// Compact implements kv.Backend. Compacting to an already compacted revision continues earlier compactions
// that were delayed by holds, or whose history was not deleted yet.
func (s *Store) Compact(ctx context.Context, before kv.Revision) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	if err := checkFuture(before, kv.Revision(s.published.Load())); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	s.history.Lock()
	defer s.history.Unlock()
	if to := s.grant(before); to > kv.Revision(s.compacted.Load()) {
		if err := s.markCompacted(to); err != nil {
			return err
		}
	}
	return s.trim(ctx)
}

// markCompacted stores the new compacted revision durably before reads observe it.
func (s *Store) markCompacted(before kv.Revision) error {
	e, err := s.acquireForWrite()
	if err != nil {
		return err
	}
	defer s.release()
	b := e.db.NewBatch()
	_ = b.Set([]byte(metaCompacted), revisionValue(before), nil)
	_ = b.DeleteRange(markKey(0), markKey(before), nil)
	if err := e.apply(b); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	s.compacted.Store(int64(before))
	s.marks.Forget(before)
	return nil
}

// trim deletes the history before the compacted revision, in steps. It preserves the log record of that
// revision and the values that its commit replaced, so that a watch from that revision receives complete
// events.
func (s *Store) trim(ctx context.Context) error {
	for {
		to := kv.Revision(s.compacted.Load()) - 1
		if s.history.trimmed >= to {
			return nil
		}
		if err := errors.Join(ctx.Err(), s.ctx.Err()); err != nil {
			return err
		}
		done, err := s.trimStep(to)
		if err != nil {
			return fmt.Errorf("compact: %w", err)
		}
		s.history.trimmed = done
	}
}

// trimStep deletes a part of the history up to a revision and returns the revision that it reached.
// It writes one batch without fsync: a step that is lost in a crash is repeated.
func (s *Store) trimStep(to kv.Revision) (kv.Revision, error) {
	e, err := s.acquireForWrite()
	if err != nil {
		return 0, err
	}
	defer s.release()
	from := s.history.trimmed + 1
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: logKey(from), UpperBound: logKey(to + 1)})
	if err != nil {
		return 0, e.wrapError("read the change log", err)
	}
	defer it.Close()
	t, err := e.newTrimmer(s.neededPins())
	if err != nil {
		return 0, err
	}
	b := t.batch
	defer b.Close()
	done := to
	for ok := it.First(); ok; ok = it.Next() {
		rev, err := logRevision(it.Key())
		if err == nil {
			err = t.trimRecord(rev, it.Value())
		}
		if err != nil {
			return 0, e.wrapError("read the change log", err)
		}
		if b.Len() >= trimBytes {
			done = rev
			break
		}
	}
	if err := it.Error(); err != nil {
		return 0, e.wrapError("read the change log", err)
	}
	_ = b.DeleteRange(logKey(from), logKey(done+1), nil)
	_ = b.DeleteRange(originKey(from), originKey(done+1), nil)
	_ = b.Set([]byte(metaTrimmed), revisionValue(done), nil)
	if err := e.db.Apply(b, pebble.NoSync); err != nil {
		return 0, e.wrapError("delete history", err)
	}
	return done, nil
}

// trimmer deletes replaced versions, or adds them to the index of retained versions.
type trimmer struct {
	batch *pebble.Batch
	pins  PinSet
	// retains is set if retained versions may exist. The batch is then indexed.
	retains bool
}

// newTrimmer returns a trimmer with an empty batch, which the caller must close.
func (e *engine) newTrimmer(pins PinSet) (*trimmer, error) {
	retains := len(pins) > 0
	if !retains {
		var err error
		if retains, err = e.hasRetained(); err != nil {
			return nil, err
		}
	}
	if !retains {
		return &trimmer{batch: e.db.NewBatch()}, nil
	}
	return &trimmer{batch: e.db.NewIndexedBatch(), pins: pins, retains: true}, nil
}

// trimRecord deletes the versions that a commit replaced, and the deletions of the commit, unless pins need
// them. rev is the revision of the commit, and raw its log record.
func (t *trimmer) trimRecord(rev kv.Revision, raw []byte) error {
	b := t.batch
	for len(raw) > 0 {
		c, rest, err := decodeChange(raw)
		if err != nil {
			return err
		}
		raw = rest
		switch {
		case c.previous == 0:
		case t.pins.Needs(c.key, c.previous, rev):
			_ = b.Set(retainedKey(c.key, c.previous), retainedValue(rev), nil)
		default:
			_ = b.SingleDelete(versionkey.Append(nil, c.key, c.previous), nil)
		}
		if !c.deleted {
			continue
		}
		older := false
		if t.retains {
			if older, err = retainsOlder(b, c.key, rev); err != nil {
				return err
			}
		}
		if older {
			_ = b.Set(retainedKey(c.key, rev), retainedValue(0), nil)
		} else {
			_ = b.SingleDelete(versionkey.Append(nil, c.key, rev), nil)
		}
	}
	return nil
}

// acquireForWrite is like acquireEngine, but returns an error if the store rejects writes.
func (s *Store) acquireForWrite() (*engine, error) {
	s.mu.Lock()
	err := s.rejectionLocked()
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.acquireEngine()
}

// Purge removes all history except the newest commit and the values that it replaced. It rewrites
// all tables, so that they contain no removed data. The next Open removes the old logs. Purge reads
// and writes all data of the store. Held revisions are retained. The error wraps kv.ErrUnavailable if
// a disk write fails.
func (s *Store) Purge(ctx context.Context) error {
	if err := s.Compact(ctx, kv.Revision(s.published.Load())); err != nil {
		return err
	}
	e, err := s.acquireForWrite()
	if err != nil {
		return err
	}
	defer s.release()
	if err := e.db.Flush(); err != nil {
		return e.wrapError("purge", err)
	}
	if err := e.compactRange(ctx, []byte{0}, []byte{0xff}); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	if err := e.guard.Failure(); err != nil {
		return fmt.Errorf("purge: %w: %w", kv.ErrUnavailable, err)
	}
	return nil
}

// logFailure logs a failure of background work. It logs nothing while writes are rejected, because repair
// logs this, or after Close was called.
func (s *Store) logFailure(doing string, err error) {
	s.mu.Lock()
	refused := s.rejectionLocked() != nil
	s.mu.Unlock()
	if !refused {
		s.log.Warn(doing, "dir", s.disk.dir, "err", err)
	}
}
