// Package rewrap rewrites the stored values whose encryption differs from the configuration: a
// different key or provider, or none. It works on an embedded store that no server uses. Each step
// is a commit of the store, so it can be interrupted at any time and run again.
package rewrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
)

// Options configure Run.
type Options struct {
	// Dir is the directory of the embedded store.
	Dir string
	// Transformer returns the transformer of a key; keys with a nil Transformer are skipped.
	Transformer func(key string) storage.Transformer
	// Progress is called after each key with the number of processed keys and the total number; nil
	// is ignored.
	Progress func(done, total int64)
}

// Report is the result of Run.
type Report struct {
	// Keys is the number of keys read, Rewritten the number of keys written.
	Keys, Rewritten int64
	// Older is the number of replaced versions that pins retain, RewrittenOlder the number of them that were
	// rewritten.
	Older, RewrittenOlder int64
	// Unreadable contains the keys and errors of the first values that could not be decrypted and
	// were not changed. UnreadableCount is the total number of such values.
	Unreadable      []string
	UnreadableCount int64
	// Revision is the newest revision of the store.
	Revision kv.Revision
}

// Limits of a commit and of a report.
const (
	batchOps      = 64
	batchBytes    = 1 << 20
	maxUnreadable = 10
)

// Run rewrites a store and removes the replaced values from its files. It deletes history, so watches
// have to start again with a list. Unreadable values are not errors; see Report. The error reports a
// store that is missing or in use, a failed write, or the end of ctx; Run can then be called again.
func Run(ctx context.Context, options Options) (Report, error) {
	if options.Progress == nil {
		options.Progress = func(int64, int64) {}
	}
	w := &rewriter{options: options}
	if err := w.withStore(func() error { return w.rewrite(ctx) }); err != nil {
		return w.report, err
	}
	// Opening the store again removes the logs with the old values.
	return w.report, w.withStore(func() error { return nil })
}

// rewriter rewrites one store.
type rewriter struct {
	options Options
	store   *embedded.Store
	report  Report

	ops  []kv.Op
	size int
	// lastKey is the last key with a transformer and a readable value, and without expiry.
	lastKey string
}

// withStore opens the store without compaction, calls work, and closes the store.
func (w *rewriter) withStore(work func() error) error {
	var err error
	if w.store, err = embedded.Open(embedded.Config{Dir: w.options.Dir, Retention: -1}); err != nil {
		return err
	}
	return errors.Join(work(), w.store.Close())
}

func (w *rewriter) rewrite(ctx context.Context) error {
	counted, err := w.store.Range(ctx, kv.RangeRequest{CountOnly: true})
	if err != nil {
		return err
	}
	err = w.readAll(ctx, func(record embedded.Record) error {
		w.report.Keys++
		w.options.Progress(w.report.Keys, counted.Count)
		return w.process(ctx, &record)
	})
	if err == nil {
		err = w.flush(ctx)
	}
	if err == nil {
		err = w.purge(ctx)
	}
	return err
}

// readAll calls process with all records at the current revision. process may write to the store.
func (w *rewriter) readAll(ctx context.Context, process func(embedded.Record) error) error {
	r, to := io.Pipe()
	copied := make(chan error, 1)
	go func() { // ends when r is closed
		_, err := w.store.Snapshot(ctx, to)
		copied <- errors.Join(err, to.CloseWithError(err))
	}()
	_, err := embedded.ReadSnapshot(r, embedded.SnapshotReader{Record: process})
	_ = r.CloseWithError(err) // always nil
	if failed := <-copied; err == nil {
		err = failed
	}
	return err
}

// process adds a record to the batch of writes if its value is stale.
func (w *rewriter) process(ctx context.Context, record *embedded.Record) error {
	next, err := w.encrypt(ctx, record.Key, record.Value)
	if next == nil || err != nil {
		return err
	}
	if record.Expires.IsZero() {
		w.lastKey = record.Key
	}
	if bytes.Equal(next, record.Value) {
		return nil
	}
	op := kv.Op{Key: record.Key, Expect: record.Modified, Kind: kv.OpPut, Value: next}
	if !record.Expires.IsZero() {
		op.TTL = max(time.Until(record.Expires), time.Second)
	}
	if w.size+len(op.Value) > batchBytes {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	w.ops, w.size = append(w.ops, op), w.size+len(op.Value)
	w.report.Rewritten++
	if len(w.ops) < batchOps {
		return nil
	}
	return w.flush(ctx)
}

// encrypt returns a stored value with the current encryption: this is the value itself if it is not stale,
// and nil if the key has no transformer or the value is a tombstone or unreadable. It counts unreadable
// values.
func (w *rewriter) encrypt(ctx context.Context, key string, value []byte) ([]byte, error) {
	transformer := w.options.Transformer(key)
	if transformer == nil || overlay.IsTombstone(value) {
		return nil, nil
	}
	plain, stale, err := transformer.FromStorage(ctx, value, key)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		if w.report.UnreadableCount++; w.report.UnreadableCount <= maxUnreadable {
			w.report.Unreadable = append(w.report.Unreadable, fmt.Sprintf("%s: %v", key, err))
		}
		return nil, nil
	case !stale:
		return value, nil
	}
	next, err := transformer.ToStorage(ctx, plain, key)
	if err != nil {
		return nil, fmt.Errorf("encrypt %s: %w", key, err)
	}
	return next, nil
}

// rewriteOlder rewrites the stale values that pins retain.
func (w *rewriter) rewriteOlder(ctx context.Context) error {
	return w.store.RewriteOlder(ctx, func(e *kv.Entry) ([]byte, error) {
		w.report.Older++
		next, err := w.encrypt(ctx, e.Key, e.Value)
		if next == nil || err != nil || bytes.Equal(next, e.Value) {
			return nil, err
		}
		w.report.RewrittenOlder++
		return next, nil
	})
}

// flush commits the collected writes, except for keys that have expired.
func (w *rewriter) flush(ctx context.Context) error {
	for len(w.ops) > 0 {
		res, err := w.store.Commit(ctx, w.ops...)
		if err != nil {
			return err
		}
		if res.Committed {
			break
		}
		var unchanged []kv.Op
		for i, op := range w.ops {
			if current := res.Current[i]; current != nil && current.Modified == op.Expect {
				unchanged = append(unchanged, op)
			}
		}
		w.ops = unchanged
	}
	w.ops, w.size = w.ops[:0], 0
	return nil
}

// purge removes replaced values from the files, including those of an interrupted run. The store
// always retains the values replaced by its newest commit, so purge makes a commit that only
// replaces values that are already rewritten.
func (w *rewriter) purge(ctx context.Context) error {
	if w.lastKey != "" {
		entry, _, err := w.store.Get(ctx, w.lastKey, 0)
		if err != nil {
			return err
		}
		if entry == nil {
			return fmt.Errorf("%s was deleted: another program uses the store", w.lastKey)
		}
		w.ops = append(w.ops, kv.Op{Key: entry.Key, Expect: entry.Modified, Kind: kv.OpPut, Value: entry.Value})
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	newest, err := w.store.CurrentRevision(ctx)
	if err != nil {
		return err
	}
	w.report.Revision = newest
	if err := w.store.Compact(ctx, newest); err != nil {
		return err
	}
	if err := w.rewriteOlder(ctx); err != nil {
		return err
	}
	return w.store.Purge(ctx)
}
