package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// Limits of a batch of a replay: the number of events, and the size of their values, in bytes. A commit is
// not split.
const (
	replayEvents = 500
	replayBytes  = 1 << 20
)

// replay is a watch of a view.
type replay struct {
	view       *View
	start, end string
	next       kv.Revision
	batches    chan kv.Batch
	ctx        context.Context
	cancel     context.CancelFunc
	err        atomic.Pointer[error] // set before batches is closed
}

// Watch implements kv.Backend. Events whose previous version was deleted from the archive have no Prev.
func (v *View) Watch(ctx context.Context, start, end string, from kv.Revision) (kv.Watch, error) {
	if from < 0 {
		return nil, fmt.Errorf("watch from revision %d: a revision is not negative", from)
	}
	if from == 0 {
		from = v.at + 1
	}
	if err := errors.Join(v.checkChanges(from), v.archive.checkFloor(start, from-1)); err != nil {
		return nil, err
	}
	w := &replay{view: v, start: start, end: end, next: from, batches: make(chan kv.Batch)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	if !v.archive.run(w.run) {
		w.cancel()
		return nil, kv.ErrClosed
	}
	return w, nil
}

// checkChanges returns an *ExpiredError if changes from a revision on are unknown.
func (v *View) checkChanges(from kv.Revision) error {
	v.archive.mu.Lock()
	defer v.archive.mu.Unlock()
	for _, g := range v.archive.mu.gaps {
		if from <= g.to && g.from < v.at {
			return &ExpiredError{From: g.fromTime, To: g.toTime}
		}
	}
	return nil
}

// Batches implements kv.Watch.
func (w *replay) Batches() <-chan kv.Batch { return w.batches }

// Err implements kv.Watch.
func (w *replay) Err() error {
	if err := w.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Stop implements kv.Watch.
func (w *replay) Stop() { w.cancel() }

// run delivers all events, and then waits until the watch is stopped or the archive is closed.
func (w *replay) run() {
	defer w.cancel()
	err := w.deliver()
	if err == nil {
		select {
		case <-w.ctx.Done():
		case <-w.view.archive.ctx.Done():
		}
	}
	if w.view.archive.ctx.Err() != nil {
		err = kv.ErrClosed
	} else if w.ctx.Err() != nil {
		err = nil
	}
	w.err.Store(&err)
	close(w.batches)
}

func (w *replay) deliver() error {
	for {
		if err := w.view.archive.Await(w.ctx, w.view.at); err != nil {
			return err
		}
		batch, err := w.read()
		if err != nil {
			return err
		}
		select {
		case w.batches <- batch:
		case <-w.ctx.Done():
			return w.ctx.Err()
		case <-w.view.archive.ctx.Done():
			return kv.ErrClosed
		}
		if batch.Revision >= w.view.at {
			return nil
		}
		w.next = batch.Revision + 1
	}
}

// read returns the next batch.
func (w *replay) read() (kv.Batch, error) {
	db, err := w.view.archive.acquire()
	if err != nil {
		return kv.Batch{}, err
	}
	defer w.view.archive.release()
	batch := kv.Batch{Revision: w.view.at}
	it, err := db.changes(w.next, w.view.at)
	if err != nil {
		return batch, err
	}
	defer it.Close()
	if err := w.view.archive.checkFloor(w.start, w.next-1); err != nil {
		return batch, err
	}
	size := 0
	for ok := it.First(); ok; ok = it.Next() {
		c, err := decodeChange(it.Key(), it.Value())
		if err != nil {
			return batch, db.explain("read the history", err)
		}
		if n := len(batch.Events); (n >= replayEvents || size >= replayBytes) && batch.Events[n-1].Revision != c.revision {
			batch.Revision = batch.Events[n-1].Revision
			return batch, nil
		}
		if c.key < w.start || w.end != "" && c.key >= w.end {
			continue
		}
		ev, err := db.event(&c)
		if err != nil {
			return batch, db.explain("read the history", err)
		}
		size += len(ev.Value)
		batch.Events = append(batch.Events, ev)
	}
	return batch, db.explain("read the history", it.Error())
}

// event returns the event of a change.
func (db *database) event(c *change) (kv.Event, error) {
	ev := kv.Event{Key: c.key, Revision: c.revision, Deleted: c.deleted}
	now, err := db.version(c.key, c.revision)
	if err != nil {
		return ev, err
	}
	if now != nil {
		ev.Origin = now.origin
		if !c.deleted {
			ev.Value, ev.Created = now.value, now.created
		}
	}
	if c.previous > 0 {
		before, err := db.version(c.key, c.previous)
		if err != nil {
			return ev, err
		}
		if before != nil && !before.deleted {
			ev.Prev = before.entry()
		}
	}
	return ev, nil
}

// version returns the complete version of a key that was written at exactly the revision at, or nil if there
// is no such version.
func (db *database) version(key string, at kv.Revision) (*version, error) {
	bounds := versionkey.Bounds(key, "")
	it, err := db.NewIter(&bounds)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	raw := versionkey.Append(nil, key, at)
	if !it.SeekPrefixGE(raw) || !bytes.Equal(it.Key(), raw) {
		return nil, it.Error()
	}
	v, err := readVersion(it, key)
	return &v, err
}
