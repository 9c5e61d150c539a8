// Package rewrap rewrites the stored values whose encryption differs from the configuration: a
// different key or provider, or none. It works on an embedded store that no server uses. Each step
// is a commit of the store, so it can be interrupted at any time and run again.
package rewrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// Options configure Run.
type Options struct {
	// Dir is the embedded store.
	Dir string
	// Transformer returns the transformer of a key; keys with a nil Transformer are skipped.
	Transformer func(key string) storage.Transformer
	// Progress is called with the numbers of keys done and in total; it may be nil.
	Progress func(done, total int64)
}

// Report is the result of Run.
type Report struct {
	// Keys is the number of keys read, Rewritten the number of keys written.
	Keys, Rewritten int64
	// Unreadable describes the first values that could not be decrypted and were not changed;
	// NotRead is their total number.
	Unreadable []string
	NotRead    int64
	Revision   kv.Revision
}

// Limits of a commit and of a report.
const (
	batchOps       = 64
	batchBytes     = 1 << 20
	mostUnreadable = 10
)

// Run rewrites a store and removes the replaced values from its files. This includes history, so
// watches have to start again with a list.
func Run(ctx context.Context, options Options) (Report, error) {
	if options.Progress == nil {
		options.Progress = func(int64, int64) {}
	}
	w := &writer{options: options}
	if err := w.use(func() error { return w.rewrite(ctx) }); err != nil {
		return w.report, err
	}
	// Opening the store again removes the logs with the old values.
	return w.report, w.use(func() error { return nil })
}

// writer rewrites one store.
type writer struct {
	options Options
	store   *embedded.Store
	report  Report

	ops  []kv.Op
	size int
	// last is a key that has a transformer and does not expire.
	last string
}

// use opens the store, without compaction, for work.
func (w *writer) use(work func() error) error {
	var err error
	if w.store, err = embedded.Open(embedded.Config{Dir: w.options.Dir, Retention: -1}); err != nil {
		return err
	}
	return errors.Join(work(), w.store.Close())
}

func (w *writer) rewrite(ctx context.Context) error {
	counted, err := w.store.Range(ctx, kv.RangeRequest{CountOnly: true})
	if err != nil {
		return err
	}
	err = w.read(ctx, func(record embedded.Record) error {
		w.report.Keys++
		w.options.Progress(w.report.Keys, counted.Count)
		return w.take(ctx, &record)
	})
	if err == nil {
		err = w.flush(ctx)
	}
	if err == nil {
		err = w.purge(ctx)
	}
	return err
}

// read passes all records to take, as of now, while others are written.
func (w *writer) read(ctx context.Context, take func(embedded.Record) error) error {
	r, to := io.Pipe()
	copied := make(chan error, 1)
	go func() { // ends when r is closed
		_, err := w.store.Snapshot(ctx, to)
		copied <- errors.Join(err, to.CloseWithError(err))
	}()
	_, err := embedded.ReadSnapshot(r, embedded.SnapshotReader{Record: take})
	_ = r.CloseWithError(err) // always nil
	if failed := <-copied; err == nil {
		err = failed
	}
	return err
}

// take rewrites a record if need be.
func (w *writer) take(ctx context.Context, record *embedded.Record) error {
	transformer := w.options.Transformer(record.Key)
	if transformer == nil {
		return nil
	}
	plain, stale, err := transformer.FromStorage(ctx, record.Value, record.Key)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		if w.report.NotRead++; w.report.NotRead <= mostUnreadable {
			w.report.Unreadable = append(w.report.Unreadable, fmt.Sprintf("%s: %v", record.Key, err))
		}
		return nil
	}
	if record.Expires.IsZero() {
		w.last = record.Key
	}
	if !stale {
		return nil
	}
	op := kv.Op{Key: record.Key, Expect: record.Modified, Kind: kv.OpPut}
	if !record.Expires.IsZero() {
		op.TTL = max(time.Until(record.Expires), time.Second)
	}
	if op.Value, err = transformer.ToStorage(ctx, plain, record.Key); err != nil {
		return fmt.Errorf("encrypt %s: %w", record.Key, err)
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

// flush commits the collected writes, except for keys that have expired.
func (w *writer) flush(ctx context.Context) error {
	for len(w.ops) > 0 {
		res, err := w.store.Commit(ctx, w.ops...)
		if err != nil {
			return err
		}
		if res.Committed {
			break
		}
		var left []kv.Op
		for i, op := range w.ops {
			if now := res.Current[i]; now != nil && now.Modified == op.Expect {
				left = append(left, op)
			}
		}
		w.ops = left
	}
	w.ops, w.size = w.ops[:0], 0
	return nil
}

// purge removes replaced values from the files, including those of an interrupted run. The store
// always retains the values replaced by its newest commit, so purge makes a commit that only
// replaces values that are already rewritten.
func (w *writer) purge(ctx context.Context) error {
	if w.last != "" {
		entry, _, err := w.store.Get(ctx, w.last, 0)
		if err != nil || entry == nil {
			return errors.Join(err, fmt.Errorf("%s was deleted: another program uses the store", w.last))
		}
		w.ops = append(w.ops, kv.Op{Key: entry.Key, Expect: entry.Modified, Kind: kv.OpPut, Value: entry.Value})
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	var err error
	if w.report.Revision, err = w.store.CurrentRevision(ctx); err != nil {
		return err
	}
	return w.store.Purge(ctx)
}
