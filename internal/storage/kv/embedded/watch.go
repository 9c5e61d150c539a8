package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// Limits of one step of a watch.
const (
	watchGroups = 32      // groups from the ring
	watchEvents = 1024    // events in a batch from disk
	watchBytes  = 1 << 20 // bytes in a batch from disk
)

// watch is a position in the history. It retains only the events of the current batch.
type watch struct {
	s *Store
	waiter
	next kv.Revision // the next revision to deliver
	// delivered is the revision of the last batch that was delivered.
	delivered kv.Revision
	batches   chan kv.Batch
	// err is set before batches is closed.
	err    atomic.Pointer[error]
	ctx    context.Context
	cancel context.CancelFunc
}

var _ kv.Watch = (*watch)(nil)

// Watch implements kv.Backend. The events of a batch are shared with other watches, and receivers must
// not modify them.
func (s *Store) Watch(ctx context.Context, start, end string, from kv.Revision) (kv.Watch, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	if from < 0 {
		return nil, fmt.Errorf("watch from revision %d: the revision must not be negative", from)
	}
	newest := kv.Revision(s.published.Load())
	if from == 0 {
		from = newest + 1
	}
	if compacted := kv.Revision(s.compacted.Load()); from < compacted {
		return nil, fmt.Errorf("watch from revision %d, the oldest being %d: %w", from, compacted, kv.ErrCompacted)
	}
	w := &watch{s: s, waiter: waiter{start: start, end: end, wake: make(chan struct{}, 1)}, next: from, batches: make(chan kv.Batch)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		w.cancel()
		return nil, kv.ErrClosed
	}
	s.metrics.watches.Inc()
	s.tasks.Go(w.run)
	return w, nil
}

// Batches implements kv.Watch.
func (w *watch) Batches() <-chan kv.Batch { return w.batches }

// Err implements kv.Watch.
func (w *watch) Err() error {
	if err := w.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Stop implements kv.Watch.
func (w *watch) Stop() { w.cancel() }

// run delivers batches until the watch ends.
func (w *watch) run() {
	defer w.s.metrics.watches.Dec()
	defer w.cancel()
	err := w.deliver()
	if w.s.ctx.Err() != nil {
		err = kv.ErrClosed
	} else if w.ctx.Err() != nil {
		err = nil
	}
	w.err.Store(&err)
	close(w.batches)
}

// deliver delivers batches from the ring if the ring still contains next, and otherwise from disk.
func (w *watch) deliver() error {
	room := make([]ringGroup, 0, watchGroups)
	for {
		clear(room[:cap(room)])
		groups, at, ok := w.s.ring.since(w.next, room)
		var err error
		if ok {
			err = w.fromRing(groups, at)
		} else {
			err = w.fromDisk(at)
		}
		if err != nil {
			return err
		}
	}
}

// errEnded ends deliver; run determines the reason.
var errEnded = errors.New("watch ended")

// fromRing delivers the events of the groups in the range of the watch. If there are none, it reports
// progress if that was requested, and otherwise waits for a change.
func (w *watch) fromRing(groups []ringGroup, at ringState) error {
	for i := range groups {
		events := w.filter(groups[i].events)
		if len(events) == 0 {
			w.next = max(w.next, groups[i].last+1)
			continue
		}
		return w.send(kv.Batch{Events: events, Revision: groups[i].last})
	}
	switch {
	case at.last >= w.next:
		return nil // there may be more groups
	case at.last == w.next-1 && (w.delivered < min(at.requested, at.last) || w.delivered == 0 && at.last > 0):
		return w.send(kv.Batch{Revision: at.last})
	}
	return w.waitForChange(at.version, false)
}

// send delivers a batch. It blocks until the receiver accepts it or the watch ends.
func (w *watch) send(b kv.Batch) error {
	select {
	case w.batches <- b:
		w.delivered = b.Revision
		w.next = max(w.next, b.Revision+1)
		return nil
	case <-w.ctx.Done():
	case <-w.s.ctx.Done():
	}
	return errEnded
}

// waitForChange waits until the ring has changed since version. It waits for an event in the range of the
// watch, for any event if every is set, or for a request for progress.
func (w *watch) waitForChange(version uint64, every bool) error {
	w.anyEvent = every
	if !w.s.ring.addWaiter(&w.waiter, version) {
		return nil
	}
	select {
	case <-w.wake:
		if !every {
			w.next = max(w.next, w.idleUntil+1)
		}
		return nil
	case <-w.ctx.Done():
	case <-w.s.ctx.Done():
	}
	w.s.ring.removeWaiter(&w.waiter)
	return errEnded
}

// filter returns the events in the range of the watch. If all events match, it returns events itself.
func (w *watch) filter(events []kv.Event) []kv.Event {
	for len(events) > 0 && events[0].Revision < w.next {
		events = events[1:]
	}
	n := 0
	for i := range events {
		if w.contains(events[i].Key) {
			n++
		}
	}
	if n == 0 || n == len(events) {
		return events[:n:n]
	}
	out := make([]kv.Event, 0, n)
	for i := range events {
		if w.contains(events[i].Key) {
			out = append(out, events[i])
		}
	}
	return out
}

// fromDisk delivers one batch from the change log. It waits while the store is being reopened.
func (w *watch) fromDisk(at ringState) error {
	b, err := w.s.readLog(w)
	if errors.Is(err, errReopening) {
		return w.waitForChange(at.version, true)
	}
	if err != nil {
		return err
	}
	if b.Revision < w.next {
		return nil
	}
	return w.send(b)
}

// readLog reads the next batch for a watch from the change log.
func (s *Store) readLog(w *watch) (kv.Batch, error) {
	e, err := s.acquireEngine()
	if err != nil {
		return kv.Batch{}, err
	}
	defer s.release()
	newest := kv.Revision(s.published.Load())
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: logKey(w.next), UpperBound: logKey(newest + 1)})
	if err != nil {
		return kv.Batch{}, e.wrapError("read the change log", err)
	}
	defer it.Close()
	// As in read, the iterator is created before this check, so that its data cannot be deleted.
	if compacted := kv.Revision(s.compacted.Load()); w.next < compacted {
		return kv.Batch{}, fmt.Errorf("watch from revision %d, the oldest being %d: %w", w.next, compacted, kv.ErrCompacted)
	}
	l := logReader{e: e, w: w, batch: kv.Batch{Revision: w.next - 1}}
	for ok := it.First(); ok && !l.full(); ok = it.Next() {
		if err := w.ctx.Err(); err != nil {
			return kv.Batch{}, err
		}
		err := l.add(it)
		if errors.Is(err, errVersionMissing) && w.next < kv.Revision(s.compacted.Load()) {
			err = fmt.Errorf("watch from revision %d: %w", w.next, kv.ErrCompacted)
			return kv.Batch{}, err
		}
		if err != nil {
			return kv.Batch{}, e.wrapError("read the change log", err)
		}
	}
	if err := it.Error(); err != nil {
		return kv.Batch{}, e.wrapError("read the change log", err)
	}
	if !l.full() {
		// Not every revision has a record: the first revision of a store has none.
		l.batch.Revision = max(l.batch.Revision, newest)
	}
	return l.batch, nil
}

// logReader builds a batch of events from log records.
type logReader struct {
	e     *engine
	w     *watch
	batch kv.Batch
	bytes int
	buf   []byte
}

func (l *logReader) full() bool {
	return len(l.batch.Events) >= watchEvents || l.bytes >= watchBytes
}

// add adds the events of the log record at the iterator's position.
func (l *logReader) add(it *pebble.Iterator) error {
	rev, err := logRevision(it.Key())
	if err != nil {
		return err
	}
	raw, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	var origin []byte
	for first := true; len(raw) > 0; {
		var c change
		if c, raw, err = decodeChange(raw); err != nil {
			return err
		}
		if !l.w.contains(c.key) {
			continue
		}
		if first {
			if origin, err = l.origin(rev); err != nil {
				return err
			}
			first = false
		}
		ev, err := l.event(c, rev)
		if err != nil {
			return err
		}
		ev.Origin = origin
		l.batch.Events = append(l.batch.Events, ev)
		l.bytes += len(ev.Value)
	}
	l.batch.Revision = rev
	return nil
}

func (l *logReader) event(c change, rev kv.Revision) (kv.Event, error) {
	ev := kv.Event{Key: c.key, Revision: rev, Deleted: c.deleted}
	if c.previous > 0 {
		prev, err := l.load(c.key, c.previous)
		if err != nil {
			return ev, err
		}
		ev.Prev = prev.entry
		if prev.entry != nil {
			l.bytes += len(prev.entry.Value)
		}
	}
	if !c.deleted {
		now, err := l.load(c.key, rev)
		if err != nil {
			return ev, err
		}
		if now.entry == nil {
			return ev, fmt.Errorf("the change log contains a put of %q at revision %d, but the version is a deletion: %w", c.key, rev, kv.ErrCorrupt)
		}
		ev.Value, ev.Created, ev.Expires = now.entry.Value, now.entry.Created, now.expires
	}
	return ev, nil
}

// origin reads the origin of a commit, or nil if it has none.
func (l *logReader) origin(rev kv.Revision) ([]byte, error) {
	raw, closer, err := l.e.db.Get(originKey(rev))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	return bytes.Clone(raw), nil
}

// load reads the version of a key at exactly the revision rev.
func (l *logReader) load(key string, rev kv.Revision) (version, error) {
	l.buf = versionkey.Append(l.buf[:0], key, rev)
	raw, closer, err := l.e.db.Get(l.buf)
	if errors.Is(err, pebble.ErrNotFound) {
		return version{}, fmt.Errorf("the change log names %q at revision %d: %w", key, rev, errVersionMissing)
	}
	if err != nil {
		return version{}, err
	}
	defer closer.Close()
	return decodeVersion(key, rev, raw)
}

// errVersionMissing reports that a version in the log does not exist. This is expected only if the version was
// compacted concurrently.
var errVersionMissing = fmt.Errorf("the version is missing: %w", kv.ErrCorrupt)
