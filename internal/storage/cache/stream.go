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

// readBatch is the maximum number of changes that a watch reads from a log at a time, except that it
// does not split a commit.
const readBatch = 128

// logStream is the storage.ChangeStream of a cached watch. It has a position in the log of the loaded cache.
// If the log no longer has the next change, or the cache was closed, the stream reads the history of the
// backend through the Store until a log has the remaining changes.
type logStream struct {
	cacher *Cacher
	ctx    context.Context    // context of the watch; limits watches of the backend
	sel    *storage.Selection // shared with the watch
	// revision is the progress of the stream. All selected changes up to this revision have been returned.
	revision int64
	changes  []*storage.Change

	// cache is the attached cache; nil while backend is read. position is the position of the next change in
	// the log of the cache. topic is the index of the selected changes; nil selects all changes.
	cache    *watchCache
	position uint64
	topic    *topic
	// notifier calls wake at the next change. registration is the index of the stream in the list of the
	// notifier plus 1, or 0 if it is not registered. The mutex of the notifier guards wake and registration.
	notifier     *notifier
	wake         func()
	registration int

	backend storage.ChangeStream
}

var _ storage.ChangeStream = (*logStream)(nil)

// Changes implements storage.WatchReader. It returns no error: the stream reads the Store if the log
// does not have the changes.
func (c *Cacher) Changes(ctx context.Context, sel *storage.Selection, from kv.Revision) (storage.ChangeStream, error) {
	s := &logStream{cacher: c, ctx: ctx, sel: sel, revision: int64(from)}
	if st := c.loaded.Load(); st != nil {
		s.attach(st)
	}
	return s, nil
}

// topicOf returns the narrowest topic that contains all changes that can cause events for a selection.
func (c *Cacher) topicOf(sel *storage.Selection) topicKey {
	if sel.End == sel.Start+"\x00" {
		return topicKey{key: sel.Start}
	}
	if term := c.indexTermOf(sel); term.field != "" {
		return topicKey{field: term.field, value: term.value}
	}
	var key topicKey
	if sel.Start != c.store.Prefix() && sel.Start == sel.Prefix {
		key.prefix = sel.Start
	}
	key.label, key.value = codec.RequiredLabel(sel.Labels)
	return key
}

// attach starts to read the log of a cache. It returns false if the log does not have the next change,
// or the cache is closed.
func (s *logStream) attach(st *watchCache) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	position, ok := st.mu.log.after(s.revision)
	if !ok || !st.isOpen() {
		return false
	}
	s.cache, s.position, s.notifier = st, position, st.mu.log.notifier
	if key := s.cacher.topicOf(s.sel); key != (topicKey{}) {
		s.topic = st.mu.log.subscribe(key)
		s.notifier = &s.topic.notifier
	}
	st.watches.Add(1)
	return true
}

// detach undoes attach.
func (s *logStream) detach() {
	if s.cache == nil {
		return
	}
	s.notifier.unregister(s)
	s.cache.mu.Lock()
	if s.topic != nil {
		s.cache.mu.log.unsubscribe(s.topic)
	}
	s.cache.mu.Unlock()
	s.cache.touch()
	s.cache.watches.Add(-1)
	s.cache, s.topic, s.notifier, s.wake = nil, nil, nil, nil
}

// Next implements storage.ChangeStream.
func (s *logStream) Next(ctx context.Context, timer <-chan time.Time, catchUp <-chan struct{}) ([]*storage.Change, int64, error) {
	clear(s.changes)
	s.changes = s.changes[:0]
	for {
		if s.cache == nil {
			return s.readBackend(ctx, timer, catchUp)
		}
		notified := s.notifier.next() // before read, so that no change is missed
		if !s.read(nil) {
			s.detach()
			continue
		}
		if len(s.changes) > 0 {
			return s.changes, s.revision, nil
		}
		select {
		case <-notified:
		case <-s.cache.closed:
			s.detach()
		case <-catchUp:
			s.readAvailable(ctx)
			return s.changes, s.revision, nil
		case <-timer:
			// The progress includes changes that arrived just before the timer fired.
			if !s.read(nil) {
				s.detach()
			}
			return s.changes, s.revision, nil
		case <-ctx.Done():
			return nil, s.revision, ctx.Err()
		}
	}
}

// Poll returns the result of Next if it is available without blocking. It returns rest.ErrWouldBlock
// if the backend must be read.
func (s *logStream) Poll(_ context.Context, wake func()) ([]*storage.Change, int64, error) {
	clear(s.changes)
	s.changes = s.changes[:0]
	if s.cache == nil {
		return nil, s.revision, rest.ErrWouldBlock
	}
	// A cache notifies its watches when it is closed, but read may have registered after this notification.
	if !s.read(wake) || len(s.changes) == 0 && !s.cache.isOpen() {
		s.detach()
		return nil, s.revision, rest.ErrWouldBlock
	}
	return s.changes, s.revision, nil
}

// readAvailable reads the log after it has reached the current revision of the store, or after a
// timeout.
func (s *logStream) readAvailable(ctx context.Context) {
	if current, err := s.cacher.CurrentRevision(ctx); err == nil {
		s.cacher.wait(ctx, s.cache, current)
	}
	if !s.read(nil) {
		s.detach()
	}
}

// read appends the next changes of the log. It returns false if the log has dropped some of them. If
// there are no changes and wake is not nil, it registers wake for the next change.
func (s *logStream) read(wake func()) (ok bool) {
	// The log contains all changes that were dispatched before this point, unless the cache is closed.
	dispatched := s.cacher.feed.Dispatched()
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
		// The watch has read all changes of the cache.
		s.revision = max(s.revision, s.cache.completeLocked(dispatched), s.cache.mu.revision)
	}
	if ok && len(s.changes) == 0 && wake != nil {
		s.notifier.register(s, wake)
	}
	return ok
}

// readAll reads every change of the log. It is used if there is no topic, or if the topic was created after
// position. It returns false if the log has dropped the next change.
func (s *logStream) readAll(l *changeLog) bool {
	if s.position < l.first {
		return false
	}
	for s.position < l.end && s.append(l.at(s.position).change) {
		s.position++
	}
	return true
}

// readTopic reads the changes of the topic. It returns false if some of them were dropped.
func (s *logStream) readTopic(l *changeLog) bool {
	positions := s.topic.positions
	i := sort.Search(len(positions), func(i int) bool { return positions[i] >= s.position })
	if s.topic.dropped > s.position || i < len(positions) && positions[i] < l.first {
		return false
	}
	for ; i < len(positions); i++ {
		if !s.append(l.at(positions[i]).change) {
			s.position = positions[i]
			return true
		}
	}
	s.position = l.end
	return true
}

// append appends a change, if it is in the range and newer than revision. It returns false if the batch
// is full and the change is not part of the last commit in it.
func (s *logStream) append(c *storage.Change) bool {
	n := len(s.changes)
	if n >= readBatch && s.changes[n-1].Revision != c.Revision {
		return false
	}
	if c.Revision > s.revision && s.sel.Contains(c.Key) {
		s.changes = append(s.changes, c)
	}
	return true
}

// readBackend reads the history of the backend, and attaches to the loaded cache when its log has all
// remaining changes.
func (s *logStream) readBackend(ctx context.Context, timer <-chan time.Time, catchUp <-chan struct{}) ([]*storage.Change, int64, error) {
	if s.backend == nil {
		if st := s.cacher.getOrLoad(ctx); st != nil && s.attach(st) {
			return nil, s.revision, nil
		}
		backend, err := s.cacher.store.Changes(s.ctx, s.sel, kv.Revision(s.revision))
		if errors.Is(err, kv.ErrClosed) {
			return nil, s.revision, rest.ErrWatchClosed
		}
		if err != nil {
			return nil, s.revision, err
		}
		s.backend = backend
	}
	changes, progress, err := s.backend.Next(ctx, timer, catchUp)
	if err != nil {
		return nil, s.revision, err
	}
	s.revision = max(s.revision, progress)
	if st := s.cacher.loaded.Load(); st != nil && s.attach(st) {
		err = s.backend.Close() // the changes stay valid
		s.backend = nil
	}
	return changes, s.revision, err
}

// Close implements storage.ChangeStream.
func (s *logStream) Close() error {
	s.detach()
	if s.backend != nil {
		return s.backend.Close()
	}
	return nil
}
