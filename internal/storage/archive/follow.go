package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
	"mainstay.dev/mainstay/internal/storage/origin"
)

const (
	// defaultFlushInterval is the default of Config.FlushInterval. A crash loses the changes since the
	// last flush, which are read again from the backend.
	defaultFlushInterval = time.Minute
	// Minimum and maximum delay before the archive follows the backend again after an error.
	retryFirst = time.Second
	retryLast  = time.Minute
	// batchBytes is the size, in bytes, at which a batch is written.
	batchBytes = 1 << 20
)

// follow archives the changes of the backend until Close.
func (a *Archive) follow() {
	delay := retryFirst
	compacted := false
	for {
		began := time.Now()
		err := a.followOnce(compacted)
		if a.ctx.Err() != nil {
			return
		}
		compacted = errors.Is(err, kv.ErrCompacted)
		if time.Since(began) > retryLast {
			delay = retryFirst
		}
		a.log.Warn("the history cannot follow the store; retrying", "dir", a.dir, "after", delay, "err", pebblefs.FirstLine(err))
		a.metrics.interrupted()
		select {
		case <-a.ctx.Done():
			return
		case <-time.After(delay):
		}
		delay = min(2*delay, retryLast)
		if err := a.repair(); err != nil {
			a.log.Warn("the history is not writable", "dir", a.dir, "err", pebblefs.FirstLine(err))
		}
		a.mu.Lock()
		a.wakeLocked()
		a.mu.Unlock()
	}
}

// repair replaces the database after a failed write.
func (a *Archive) repair() error {
	a.life.Lock()
	db := a.db
	if db != nil && db.guard.Failure() == nil {
		a.life.Unlock()
		return nil
	}
	a.db = nil
	if db != nil {
		_ = db.close() // only discards data
	}
	a.life.Unlock()
	return a.reopen()
}

// followOnce archives changes until an error occurs. compacted is set if the last call has found that the
// backend does not have the changes since the position.
func (a *Archive) followOnce(compacted bool) error {
	db, err := a.acquire()
	if err != nil {
		return err
	}
	defer a.release()
	f := &follower{a: a, db: db, chains: chains{}}
	if f.watch, err = a.openWatch(db, compacted); err != nil {
		return err
	}
	defer f.watch.Stop()
	if err := f.flush(); err != nil {
		return err
	}
	flush := time.NewTicker(a.flushInterval)
	defer flush.Stop()
	for {
		select {
		case batch, ok := <-f.watch.Batches():
			if !ok {
				return errors.Join(errWatchEnded, f.watch.Err())
			}
			if err := f.archive(batch); err != nil {
				return err
			}
		case <-flush.C:
			if err := f.flush(); err != nil {
				return err
			}
		case <-db.failed:
			return db.failure()
		case <-a.ctx.Done():
			return a.ctx.Err()
		}
	}
}

var errWatchEnded = errors.New("the watch of the store has ended")

// openWatch starts a watch at the position. If the backend does not have the changes since then, it compares
// all keys first. A backend may report the compaction only after the watch was opened; compacted is then set
// in the next call.
func (a *Archive) openWatch(db *database, compacted bool) (kv.Watch, error) {
	if at := a.Position(); at > 0 && !compacted {
		w, err := a.backend.Watch(a.ctx, a.prefix, kv.PrefixEnd(a.prefix), at+1)
		if err == nil || !errors.Is(err, kv.ErrCompacted) {
			return w, err
		}
	}
	held, release, err := a.backend.Hold(a.ctx, 0)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := a.resync(db, held); err != nil {
		return nil, fmt.Errorf("compare the history with the store: %w", err)
	}
	return a.backend.Watch(a.ctx, a.prefix, kv.PrefixEnd(a.prefix), held+1)
}

// follower writes the changes of one watch.
type follower struct {
	a     *Archive
	db    *database
	watch kv.Watch
	buf   []byte
	// chains has the depths of versions that were written to db.
	chains chains
}

// flush makes the archived changes durable, so that the backend need no longer hold them.
func (f *follower) flush() error {
	if f.a.Position() != f.a.hold.revision {
		if err := f.db.flush(); err != nil {
			return err
		}
	}
	f.a.holdPosition() // also extends the hold
	return nil
}

// hold is a hold on the history of the backend.
type hold struct {
	revision kv.Revision
	release  func() // nil without a hold
}

func (h *hold) end() {
	if h.release != nil {
		h.release()
	}
	*h = hold{}
}

// holdPosition replaces the hold with a hold on the position, which must be durable.
func (a *Archive) holdPosition() {
	held, release, err := a.backend.Hold(context.WithoutCancel(a.ctx), a.Position()) // Close releases the hold
	if err != nil {
		if a.ctx.Err() == nil {
			a.log.Warn("the store does not hold the changes that the history has not flushed", "dir", a.dir, "err", err)
		}
		return
	}
	a.hold.end()
	a.hold = hold{held, release}
}

// archive writes a batch of changes.
func (f *follower) archive(batch kv.Batch) error {
	now := f.a.now()
	b := f.db.NewBatch()
	for i := range batch.Events {
		ev := &batch.Events[i]
		f.add(b, ev, now)
		last := i+1 == len(batch.Events) || batch.Events[i+1].Revision != ev.Revision
		if !last || b.Len() < batchBytes {
			continue
		}
		if err := f.write(b, ev.Revision, now); err != nil {
			return err
		}
		b = f.db.NewBatch()
	}
	return f.write(b, batch.Revision, now)
}

// write writes a batch with the last changes up to the revision at, and moves the position to at.
func (f *follower) write(b *pebble.Batch, at kv.Revision, now time.Time) error {
	_ = b.Set([]byte(metaPosition), uintValue(uint64(at)), nil)
	_ = b.Set([]byte(metaCurrent), uintValue(encodeTime(now)), nil)
	if err := f.db.apply(b); err != nil {
		return err
	}
	f.a.moveTo(at, now)
	return nil
}

// add adds a change to a batch. The time of the change is the time in its origin, or now.
func (f *follower) add(b *pebble.Batch, ev *kv.Event, now time.Time) {
	v := version{key: ev.Key, revision: ev.Revision, deleted: ev.Deleted, created: ev.Created, time: now, origin: ev.Origin, value: ev.Value}
	if o, err := origin.Decode(ev.Origin); err == nil && !o.Time.IsZero() {
		v.time = o.Time
	}
	c := change{revision: ev.Revision, key: ev.Key, deleted: ev.Deleted, time: v.time}
	if ev.Prev != nil {
		c.previous = ev.Prev.Modified
	}
	if ev.Deleted {
		v.created = ev.Revision
	} else {
		f.shorten(&v, ev.Prev)
	}
	f.buf = putVersion(b, f.buf, &v)
	_ = b.Set(changeKey(c.revision, c.key), c.value(), nil)
}

// shorten replaces the value of a version with a delta to the version before it, if the delta is much
// smaller.
func (f *follower) shorten(v *version, before *kv.Entry) {
	if before != nil && f.chains.next(v.key, before.Modified) {
		if delta := encodeDelta(before.Value, v.value); delta != nil {
			v.delta, v.value = true, delta
		}
	}
	f.chains.record(v.key, v.revision, v.delta)
}

// putVersion adds a version to a batch. It returns buf for the next call.
func putVersion(b *pebble.Batch, buf []byte, v *version) []byte {
	buf = versionkey.Append(buf[:0], v.key, v.revision)
	n := len(buf)
	buf = appendVersion(buf, v)
	_ = b.Set(buf[:n], buf[n:], nil)
	return buf
}

// CatchUp waits until the archive has all changes that the backend acknowledged before the call,
// and returns the newest revision. It returns the errors of the backend and of Await.
func (a *Archive) CatchUp(ctx context.Context) (kv.Revision, error) {
	newest, err := a.backend.CurrentRevision(ctx)
	if err != nil {
		return 0, err
	}
	return newest, a.Await(ctx, newest)
}
