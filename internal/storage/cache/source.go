package cache

import (
	"context"
	"errors"
	"sort"
	"time"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// sourceBatch is the maximum number of changes that a watch reads from a log at a time.
const sourceBatch = 128

// source is the storage.Source of a cached watch: a position in the log of the
// loaded cache. Where the log does not go back far enough, or the cache was closed,
// it reads the backend's history until a log has the rest.
type source struct {
	cacher *Cacher
	ctx    context.Context // ends the watch; used where a backend's watch is opened
	sel    storage.Selection
	// revision: all selected changes up to it have been returned.
	revision int64
	changes  []*storage.Change

	// cache is the attached cache, nil while backend is read. position is the
	// next change in its log, topic the selected ones (nil: all).
	cache    *watchCache
	position uint64
	topic    *topic
	// bell notifies of the next change by calling wake. place is the index in its list, from 1; 0
	// if not registered. The bell guards both.
	bell  *bell
	wake  func()
	place int

	backend storage.Source
}

// newSource returns the changes of a selection after a revision.
func (c *Cacher) newSource(ctx context.Context, sel storage.Selection, revision int64) *source {
	s := &source{cacher: c, ctx: ctx, sel: sel, revision: revision}
	if st := c.loaded.Load(); st != nil {
		s.attach(st)
	}
	return s
}

// topicOf returns the narrowest topic that has all changes that may be events of a
// selection.
func (c *Cacher) topicOf(sel *storage.Selection) topicKey {
	if sel.End == sel.Start+"\x00" {
		return topicKey{key: sel.Start}
	}
	if by := c.indexTermOf(sel); by.field != "" {
		return topicKey{field: by.field, value: by.value}
	}
	var key topicKey
	if sel.Start != c.store.Prefix() && sel.Start == sel.Prefix {
		key.prefix = sel.Start
	}
	key.label, key.value = codec.RequiredLabel(sel.Labels)
	return key
}

// attach begins to read the log of a cache. It is false where that does not go back
// far enough, or the cache is closed.
func (s *source) attach(st *watchCache) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	position, ok := st.mu.log.after(s.revision)
	if !ok || !st.alive() {
		return false
	}
	s.cache, s.position, s.bell = st, position, st.mu.log.bell
	if key := s.cacher.topicOf(&s.sel); key != (topicKey{}) {
		s.topic = st.mu.log.subscribe(key)
		s.bell = &s.topic.bell
	}
	st.watches.Add(1)
	return true
}

// detach undoes attach.
func (s *source) detach() {
	if s.cache == nil {
		return
	}
	s.bell.remove(s)
	s.cache.mu.Lock()
	if s.topic != nil {
		s.cache.mu.log.unsubscribe(s.topic)
	}
	s.cache.mu.Unlock()
	s.cache.touch()
	s.cache.watches.Add(-1)
	s.cache, s.topic, s.bell, s.wake = nil, nil, nil, nil
}

// Next implements storage.Source.
func (s *source) Next(ctx context.Context, wake <-chan time.Time, changed <-chan struct{}) ([]*storage.Change, int64, error) {
	clear(s.changes)
	s.changes = s.changes[:0]
	for {
		if s.cache == nil {
			return s.readBackend(ctx, wake, changed)
		}
		woken := s.bell.channel() // before there is no change
		if !s.read(nil) {
			s.detach()
			continue
		}
		if len(s.changes) > 0 {
			return s.changes, s.revision, nil
		}
		select {
		case <-woken:
		case <-s.cache.closed:
			s.detach()
		case <-changed:
			s.catchUp(ctx)
			return s.changes, s.revision, nil
		case <-wake:
			// A change may have arrived with the tick; progress includes it.
			if !s.read(nil) {
				s.detach()
			}
			return s.changes, s.revision, nil
		case <-ctx.Done():
			return nil, s.revision, ctx.Err()
		}
	}
}

// Poll returns the result of Next if it is available without blocking. Only Next reads the backend.
func (s *source) Poll(wake func()) ([]*storage.Change, int64, error) {
	clear(s.changes)
	s.changes = s.changes[:0]
	if s.cache == nil {
		return nil, s.revision, rest.ErrWouldBlock
	}
	// A cache that is closed rings, but may have done so before it was waited for.
	if !s.read(wake) || len(s.changes) == 0 && !s.cache.alive() {
		s.detach()
		return nil, s.revision, rest.ErrWouldBlock
	}
	return s.changes, s.revision, nil
}

// catchUp reads the log after it has reached the current state of the store, or the available
// changes after a timeout.
func (s *source) catchUp(ctx context.Context) {
	if current, err := s.cacher.store.Backend().CurrentRevision(ctx); err == nil {
		s.cacher.wait(ctx, s.cache, current)
	}
	if !s.read(nil) {
		s.detach()
	}
}

// read appends the next changes of the log. It returns false if the log has dropped some of them.
// If there are none, the next change calls wake, unless it is nil.
func (s *source) read(wake func()) (ok bool) {
	// The log contains all changes that were dispatched to an open cache before this point.
	dispatched := int64(s.cacher.feed.Dispatched())
	if !s.cache.alive() {
		dispatched = 0
	}
	s.cache.mu.RLock()
	defer s.cache.mu.RUnlock()
	l := &s.cache.mu.log
	if s.topic != nil && s.position >= s.topic.since {
		ok = s.readTopic(l)
	} else {
		ok = s.readAll(l)
	}
	if n := len(s.changes); n > 0 {
		s.revision = s.changes[n-1].Revision
	}
	if ok && s.position == l.end {
		// The watch has caught up with the cache.
		s.revision = max(s.revision, s.cache.completeLocked(kv.Revision(dispatched)), s.cache.mu.revision)
	}
	if ok && len(s.changes) == 0 && wake != nil {
		s.bell.add(s, wake)
	}
	return ok
}

// readAll reads every change, where there is no topic or it is not complete.
func (s *source) readAll(l *changeLog) bool {
	if s.position < l.first {
		return false
	}
	for s.position < l.end && s.add(l.at(s.position).change) {
		s.position++
	}
	return true
}

func (s *source) readTopic(l *changeLog) bool {
	positions := s.topic.positions
	i := sort.Search(len(positions), func(i int) bool { return positions[i] >= s.position })
	if s.topic.forgotten > s.position || i < len(positions) && positions[i] < l.first {
		return false
	}
	for ; i < len(positions); i++ {
		if !s.add(l.at(positions[i]).change) {
			s.position = positions[i]
			return true
		}
	}
	s.position = l.end
	return true
}

// add appends a change, if it is in the range and newer than revision. It is false
// when the batch is full; a commit is not split between batches.
func (s *source) add(c *storage.Change) bool {
	n := len(s.changes)
	if n >= sourceBatch && s.changes[n-1].Revision != c.Revision {
		return false
	}
	if c.Revision > s.revision && s.sel.Holds(c.Key) {
		s.changes = append(s.changes, c)
	}
	return true
}

// readBackend reads the backend's history, and attaches to the loaded cache as soon
// as its log has all the rest.
func (s *source) readBackend(ctx context.Context, wake <-chan time.Time, changed <-chan struct{}) ([]*storage.Change, int64, error) {
	if s.backend == nil {
		if st := s.cacher.getOrLoad(ctx); st != nil && s.attach(st) {
			return nil, s.revision, nil
		}
		backend, err := s.cacher.store.Changes(s.ctx, &s.sel, kv.Revision(s.revision))
		if errors.Is(err, kv.ErrClosed) {
			return nil, s.revision, rest.ErrWatchClosed
		}
		if err != nil {
			return nil, s.revision, err
		}
		s.backend = backend
	}
	changes, progress, err := s.backend.Next(ctx, wake, changed)
	if err != nil {
		return nil, s.revision, err
	}
	s.revision = max(s.revision, progress)
	if st := s.cacher.loaded.Load(); st != nil && s.attach(st) {
		// The slice of changes remains valid after Close.
		err = s.backend.Close()
		s.backend = nil
	}
	return changes, s.revision, err
}

// Close implements storage.Source.
func (s *source) Close() error {
	s.detach()
	if s.backend != nil {
		return s.backend.Close()
	}
	return nil
}

var _ storage.Source = (*source)(nil)
