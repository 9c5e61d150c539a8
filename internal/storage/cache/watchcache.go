package cache

import (
	"context"
	"iter"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// item is an entry of a tree.
type item struct {
	key    string
	record *codec.Record
}

// tree is objects in the order of their keys. A copy shares all nodes; a change of
// either then copies the path to the changed node.
type tree = btree.BTreeG[item]

func newTree() *tree {
	return btree.NewBTreeGOptions(func(a, b item) bool { return a.key < b.key }, btree.Options{NoLocks: true})
}

// snapshot is an immutable tree.
type snapshot struct {
	tree *tree
	// from and to are the first and last revision with the objects of tree. to is 0 for the current
	// tree.
	from, to int64
	taken    time.Time
	// indexes are the indexes that lists of the snapshot have used, by field. watchCache.mu guards
	// the map.
	indexes map[string]*indexTree
}

// Limits of the snapshots that are retained for later pages.
const (
	maxSnapshots  = 32
	keepSnapshots = 5 * time.Minute
)

// watchCache is the objects of one resource and their recent changes, from a load
// until it is closed. The feed, and decode on its behalf, change it; all methods may
// be called concurrently.
type watchCache struct {
	store  Store
	feed   *Feed
	prefix string
	report *report
	limits LogLimits
	// used is the time of the last read, in Unix nanoseconds; watches counts
	// open watches.
	used    atomic.Int64
	watches atomic.Int64
	// loadedAt is the revision of the load, once that is done.
	loadedAt atomic.Int64
	// life ends, and closed is closed, when the cache is closed. release then
	// removes it from its Cacher.
	life    context.Context
	closed  <-chan struct{}
	closer  sync.Once
	end     context.CancelFunc
	release func(*watchCache)

	mu struct {
		sync.RWMutex
		// buffered are events dispatched before the objects were loaded; nil
		// afterwards.
		buffered []kv.Event
		loaded   bool
		tree     *tree
		bytes    int64 // of the objects of tree, as they are stored
		// revision is that of the newest change, or of the load.
		revision int64
		log      changeLog
		// applied counts changes that watches have not been woken for.
		applied int
		// indexes are the indexes of tree, by field.
		indexes map[string]*index
		// written are records stored through the Cacher that are newer than
		// revision, by key.
		written map[string]*codec.Record
		// retains reports that the records of tree and log are retained. It is false before the
		// load, and after releaseRecords.
		retains bool
		// newest is a copy of tree, nil when tree has changed since.
		newest *snapshot
		// kept are the snapshots for later pages of lists, oldest first.
		kept []*snapshot
		undecoded
	}
}

func newWatchCache(ctx context.Context, store Store, feed *Feed, release func(*watchCache)) *watchCache {
	s := &watchCache{
		store: store, feed: feed, prefix: store.Prefix(), report: feed.metrics.of(store.GroupResource()), limits: feed.limits,
		release: release,
	}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx)) // not only the first reader uses it
	s.closed = s.life.Done()
	context.AfterFunc(s.life, func() {
		s.wakeAll()
		s.releaseRecords()
	})
	s.mu.indexes, s.mu.written = map[string]*index{}, map[string]*codec.Record{}
	s.touch()
	return s
}

// wakeAll wakes all watches of a cache that is closed.
func (s *watchCache) wakeAll() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.loaded {
		s.mu.log.ringAll()
	}
}

// releaseRecords releases the records of a closed cache.
func (s *watchCache) releaseRecords() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.retains {
		return
	}
	s.mu.retains = false
	s.mu.tree.Scan(func(i item) bool {
		i.record.Release()
		return true
	})
	s.mu.log.release()
}

func (s *watchCache) touch() { s.used.Store(time.Now().UnixNano()) }

func (s *watchCache) idleSince(t time.Time) bool {
	return s.watches.Load() == 0 && s.used.Load() < t.UnixNano()
}

// close closes the cache. Its watches go on with the backend's history.
func (s *watchCache) close() {
	s.closer.Do(func() {
		s.end()
		s.release(s)
	})
}

// alive reports whether the cache is open, which means that it has, decoded or
// queued, every event dispatched before the call.
func (s *watchCache) alive() bool {
	select {
	case <-s.closed:
		return false
	default:
		return true
	}
}

// load fills the cache with the objects at a revision, and then with the buffered
// events. An error is that of records, or of a value that does not decode.
func (s *watchCache) load(ctx context.Context, records iter.Seq2[*codec.Record, error], revision int64) error {
	filled, bytes := newTree(), int64(0)
	for record, err := range records {
		if err != nil {
			return err
		}
		filled.Load(item{s.store.KeyOf(record.Name()), record})
		bytes += int64(record.StoredSize())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.tree, s.mu.bytes, s.mu.revision, s.mu.log = filled, bytes, revision, newLog(revision, s.limits)
	s.mu.loaded = true
	if s.mu.retains = s.alive(); s.mu.retains {
		filled.Scan(func(i item) bool {
			i.record.Retain()
			return true
		})
	}
	s.loadedAt.Store(revision)
	buffered := s.mu.buffered
	s.mu.buffered = nil
	s.report.initialized()
	return s.processEventsLocked(ctx, buffered)
}

// processEvents applies new events, in order. After an error, which means that a
// value does not decode, the cache must be detached.
func (s *watchCache) processEvents(ctx context.Context, events []kv.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.loaded {
		s.mu.buffered = append(s.mu.buffered, events...)
		return nil
	}
	return s.processEventsLocked(ctx, events)
}

// processEventsLocked applies events up to the first that may block; it queues that
// one and all later ones for decode, so that neither the feed nor a reader waits for
// a key service.
func (s *watchCache) processEventsLocked(ctx context.Context, events []kv.Event) error {
	if len(s.mu.queue) > 0 {
		s.decodeLaterLocked(events)
		return nil
	}
	for len(events) > 0 {
		n := commitOf(events)
		if !s.nonBlockingLocked(events[:n]) {
			s.decodeLaterLocked(events)
			return nil
		}
		changes, err := s.changes(ctx, events[:n], s.beforeLocked(events[:n]))
		if err != nil {
			return err
		}
		s.applyLocked(changes)
		events = events[n:]
	}
	s.broadcastLocked()
	return nil
}

// commitOf returns how many events, from the first on, are of one commit.
func commitOf(events []kv.Event) int {
	n := 1
	for n < len(events) && events[n].Revision == events[0].Revision {
		n++
	}
	return n
}

func (s *watchCache) nonBlockingLocked(events []kv.Event) bool {
	for i := range events {
		if !s.store.NonBlocking(&events[i]) {
			return false
		}
	}
	return true
}

// beforeLocked returns the records of events' keys before the events.
func (s *watchCache) beforeLocked(events []kv.Event) []*codec.Record {
	before := make([]*codec.Record, len(events))
	for i := range events {
		found, _ := s.mu.tree.Get(item{key: events[i].Key})
		before[i] = found.record
	}
	return before
}

// applyLocked applies the changes of one commit, whole.
func (s *watchCache) applyLocked(changes []*storage.Change) {
	now := time.Now()
	for _, change := range changes {
		s.changeLocked(change, now)
	}
	s.mu.applied += len(changes)
}

// broadcastLocked wakes the watches after changes were applied.
func (s *watchCache) broadcastLocked() {
	if s.mu.applied > 0 {
		s.mu.log.bell.ring()
		s.report.received(s.mu.applied, s.mu.revision, len(s.mu.log.ring))
		s.mu.applied = 0
	}
}

// changes creates the changes of a commit, all or none. before has the objects before it.
func (s *watchCache) changes(ctx context.Context, events []kv.Event, before []*codec.Record) ([]*storage.Change, error) {
	if int64(events[0].Revision) <= s.loadedAt.Load() {
		return nil, nil
	}
	changes := make([]*storage.Change, 0, len(events))
	for i := range events {
		ev, prev := &events[i], before[i]
		if prev != nil && (ev.Prev == nil || int64(ev.Prev.Modified) != prev.Revision()) {
			prev = nil
		}
		change, err := s.store.NewChange(ctx, ev, prev)
		if err != nil {
			return nil, err
		}
		if change.Record != nil || change.Prev != nil {
			changes = append(changes, change)
		}
	}
	return changes, nil
}

func (s *watchCache) changeLocked(change *storage.Change, now time.Time) {
	s.retireLocked(change.Revision)
	var before item
	if change.Record != nil {
		before, _ = s.mu.tree.Set(item{change.Key, change.Record})
		s.mu.bytes += int64(change.Record.StoredSize())
	} else {
		before, _ = s.mu.tree.Delete(item{key: change.Key})
	}
	if before.record != nil {
		s.mu.bytes -= int64(before.record.StoredSize())
	}
	var replaced *codec.Record
	if s.mu.retains {
		replaced = before.record
		if change.Record != nil {
			change.Record.Retain()
		}
	}
	s.indexLocked(treeChange{change.Key, before.record, change.Record})
	s.mu.revision = change.Revision
	s.seenLocked(change)
	s.mu.log.append(change, replaced, now)
}

// retireLocked sets the last revision of the newest snapshot, before a change at a
// revision.
func (s *watchCache) retireLocked(revision int64) {
	if s.mu.newest != nil {
		s.mu.newest.to = revision - 1
		s.mu.newest = nil
	}
}

// get returns an object, or nil.
func (s *watchCache) get(key string) *codec.Record {
	s.touch()
	s.mu.RLock()
	defer s.mu.RUnlock()
	found, _ := s.mu.tree.Get(item{key: key})
	return found.record
}

// size is how much there is of a resource.
type size struct{ objects, bytes int64 }

func (s *watchCache) size() size {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.mu.loaded {
		return size{}
	}
	return size{int64(s.mu.tree.Len()), s.mu.bytes}
}

func (s *watchCache) len() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return int64(s.mu.tree.Len())
}

// snapshot returns the objects at the newest revision, and this revision: the argument, up to which
// the feed has dispatched, or a later one. A pageSize other than 0 retains the snapshot for later
// pages. It returns nil if the cache is closed.
func (s *watchCache) snapshot(dispatched kv.Revision, pageSize int64) (*snapshot, int64) {
	s.touch()
	if !s.alive() {
		return nil, 0
	}
	s.mu.RLock()
	newest, revision, complete := s.mu.newest, s.mu.revision, s.completeLocked(dispatched)
	s.mu.RUnlock()
	if newest == nil || pageSize > 0 {
		s.mu.Lock()
		newest, revision = s.newestLocked(), s.mu.revision
		complete = s.completeLocked(dispatched)
		s.keepLocked(newest, pageSize)
		s.mu.Unlock()
	}
	return newest, max(complete, revision)
}

// snapshotAt returns the objects at a revision, nil where there is no such snapshot.
func (s *watchCache) snapshotAt(revision int64, dispatched kv.Revision, pageSize int64) *snapshot {
	s.touch()
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision >= s.mu.revision && revision <= max(s.completeLocked(dispatched), s.mu.revision) && s.alive() {
		newest := s.newestLocked()
		s.keepLocked(newest, pageSize)
		return newest
	}
	for _, k := range s.mu.kept {
		if k.from <= revision && revision <= k.to {
			return k
		}
	}
	return nil
}

func (s *watchCache) newestLocked() *snapshot {
	if s.mu.newest == nil {
		s.mu.newest = &snapshot{tree: s.mu.tree.Copy(), from: s.mu.revision, taken: time.Now()}
	}
	return s.mu.newest
}

// keepLocked retains the newest snapshot for later pages, if it has more than one page.
func (s *watchCache) keepLocked(newest *snapshot, pageSize int64) {
	if pageSize == 0 || int64(newest.tree.Len()) <= pageSize || slices.Contains(s.mu.kept, newest) {
		return
	}
	if len(s.mu.kept) == maxSnapshots {
		s.mu.kept = slices.Delete(s.mu.kept, 0, 1)
	}
	s.mu.kept = append(s.mu.kept, newest)
}

// expire drops old snapshots, unread indexes and decoded objects.
func (s *watchCache) expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.log.releaseDecoded()
	s.mu.log.trimIdle(now)
	limit := now.Add(-keepSnapshots)
	s.expireIndexesLocked(limit)
	s.mu.kept = slices.DeleteFunc(s.mu.kept, func(k *snapshot) bool { return k.taken.Before(limit) })
}

// records yields the objects of a range.
func records(t *tree, start, end string) iter.Seq2[*codec.Record, error] {
	return func(yield func(*codec.Record, error) bool) {
		t.Ascend(item{key: start}, func(i item) bool {
			return (end == "" || i.key < end) && yield(i.record, nil)
		})
	}
}

// count returns how many objects there are in a range.
func count(t *tree, start, end string) int64 {
	rank := func(key string) int {
		return sort.Search(t.Len(), func(i int) bool {
			found, _ := t.GetAt(i)
			return found.key >= key
		})
	}
	last := t.Len()
	if end != "" {
		last = rank(end)
	}
	return int64(last - rank(start))
}
