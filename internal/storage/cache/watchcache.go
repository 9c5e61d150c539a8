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

// item is an object in a tree.
type item struct {
	key    string
	record *codec.Record
}

// tree contains objects in the order of their keys. A copy shares all nodes. A later change of either tree
// copies the path to the changed node.
type tree = btree.BTreeG[item]

func newTree() *tree {
	return btree.NewBTreeGOptions(func(a, b item) bool { return a.key < b.key }, btree.Options{NoLocks: true})
}

// snapshot is an immutable tree with the revisions at which it is valid.
type snapshot struct {
	tree *tree
	// from and to are the first and the last revision with these objects. to is 0 for the current
	// state.
	from, to int64
	taken    time.Time
	// indexes contains the indexes that lists of the snapshot have used, by field. watchCache.mu guards
	// the map; the indexes are immutable.
	indexes map[string]*indexTree
}

// Limits of the snapshots that are pinned for later pages of lists.
const (
	maxSnapshots   = 32
	maxSnapshotAge = 5 * time.Minute
)

// watchCache contains the objects of one resource and their recent changes. It is created for a load and
// used until it is closed. Only the feed and the decoder change its objects. All methods are safe for
// concurrent use.
type watchCache struct {
	store  Store
	feed   *Feed
	prefix string
	report *resourceMetrics
	limits LogLimits
	// used is the time of the last read, in Unix nanoseconds; watches is the number of open watches.
	used    atomic.Int64
	watches atomic.Int64
	// loadedAt is the revision of the load; 0 until the load is complete.
	loadedAt atomic.Int64
	// lifetime ends when the cache is closed; closed is its Done channel. release then removes the
	// cache from its Cacher.
	lifetime  context.Context
	closed    <-chan struct{}
	closeOnce sync.Once
	cancel    context.CancelFunc
	release   func(*watchCache)

	mu struct {
		sync.RWMutex
		// buffered contains the events that were dispatched during the load; nil afterwards.
		buffered []kv.Event
		loaded   bool
		tree     *tree
		bytes    int64 // stored size of the objects in tree
		// revision is the revision of the newest change, or of the load.
		revision int64
		log      changeLog
		// applied is the number of changes for which watches were not notified yet.
		applied int
		// indexes contains the indexes of tree, by field.
		indexes map[string]*index
		// recentWrites contains the records that were written through the Cacher and are newer than
		// revision, by key.
		recentWrites map[string]*codec.Record
		// retains is set while the records of tree and log are retained. It is not set before the load and
		// after releaseRecords.
		retains bool
		// newest is a copy of tree; nil if tree has changed since.
		newest *snapshot
		// pinned contains the snapshots for later pages of lists, oldest first.
		pinned []*snapshot
		decodeQueue
	}
}

// newWatchCache returns an empty cache. Its lifetime does not depend on the context of the request that loads
// it, because that context would keep the request in memory for as long as the cache is open.
func newWatchCache(store Store, feed *Feed, release func(*watchCache)) *watchCache {
	s := &watchCache{
		store: store, feed: feed, prefix: store.Prefix(), report: feed.metrics.forResource(store.GroupResource()), limits: feed.limits,
		release: release,
	}
	s.lifetime, s.cancel = context.WithCancel(context.Background())
	s.closed = s.lifetime.Done()
	context.AfterFunc(s.lifetime, func() {
		s.notifyAll()
		s.releaseRecords()
	})
	s.mu.indexes, s.mu.recentWrites = map[string]*index{}, map[string]*codec.Record{}
	s.touch()
	return s
}

// notifyAll wakes all watches of a closed cache.
func (s *watchCache) notifyAll() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.loaded {
		s.mu.log.notifyAll()
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

// close closes the cache. Its watches continue with the history of the backend.
func (s *watchCache) close() {
	s.closeOnce.Do(func() {
		s.cancel()
		s.release(s)
	})
}

// isOpen reports whether the cache is open. An open cache has applied every event that was dispatched before
// the call, or has it in the decode queue.
func (s *watchCache) isOpen() bool {
	select {
	case <-s.closed:
		return false
	default:
		return true
	}
}

// load fills the cache with the objects at a revision, and applies the buffered events. The error comes from
// records or from an unreadable event.
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
	if s.mu.retains = s.isOpen(); s.mu.retains {
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

// processEvents applies new events in order. An error means that an event is unreadable; the caller must then
// detach the cache.
func (s *watchCache) processEvents(ctx context.Context, events []kv.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.loaded {
		s.mu.buffered = append(s.mu.buffered, events...)
		return nil
	}
	return s.processEventsLocked(ctx, events)
}

// processEventsLocked applies events up to the first one that may block. It enqueues that event and all
// later ones for the decoder, so that neither the feed nor a reader waits for a key service.
func (s *watchCache) processEventsLocked(ctx context.Context, events []kv.Event) error {
	if len(s.mu.queue) > 0 {
		s.enqueueLocked(events)
		return nil
	}
	for len(events) > 0 {
		n := commitLen(events)
		if !s.nonBlockingLocked(events[:n]) {
			s.enqueueLocked(events)
			return nil
		}
		changes, err := s.changes(ctx, events[:n], s.beforeLocked(events[:n]))
		if err != nil {
			return err
		}
		s.applyLocked(changes)
		events = events[n:]
	}
	s.notifyLocked()
	return nil
}

// commitLen returns the number of events of the first commit. events must not be empty.
func commitLen(events []kv.Event) int {
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

// beforeLocked returns the current record of the key of each event.
func (s *watchCache) beforeLocked(events []kv.Event) []*codec.Record {
	before := make([]*codec.Record, len(events))
	for i := range events {
		found, _ := s.mu.tree.Get(item{key: events[i].Key})
		before[i] = found.record
	}
	return before
}

// applyLocked applies all changes of one commit.
func (s *watchCache) applyLocked(changes []*storage.Change) {
	now := time.Now()
	for _, change := range changes {
		s.changeLocked(change, now)
	}
	s.mu.applied += len(changes)
}

// notifyLocked wakes the watches after changes were applied.
func (s *watchCache) notifyLocked() {
	if s.mu.applied > 0 {
		s.mu.log.notifier.notify()
		s.report.received(s.mu.applied, s.mu.revision, len(s.mu.log.ring))
		s.mu.applied = 0
	}
}

// changes returns the changes of a commit, or an error if one of its events is unreadable. before contains
// the records of the keys before the commit. changes returns nil if the loaded objects already include the
// commit.
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
	s.dropRecentWriteLocked(change)
	s.mu.log.append(change, replaced, now)
}

// retireLocked limits the newest snapshot to the revisions before a change.
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

// size is the number of objects of a resource and the sum of their stored sizes.
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

// snapshot returns the objects at the newest revision, and this revision. dispatched is the revision up to
// which the feed has dispatched events. If pageSize is not 0, the snapshot is pinned for later pages. The
// result is nil if the cache is closed.
func (s *watchCache) snapshot(dispatched kv.Revision, pageSize int64) (*snapshot, int64) {
	s.touch()
	s.mu.RLock()
	newest, revision, complete := s.mu.newest, s.mu.revision, s.completeLocked(dispatched)
	s.mu.RUnlock()
	if newest == nil || pageSize > 0 {
		s.mu.Lock()
		newest, revision = s.newestLocked(), s.mu.revision
		complete = s.completeLocked(dispatched)
		s.pinLocked(newest, pageSize)
		s.mu.Unlock()
	}
	if !s.isOpen() { // after the read, because a closed cache is incomplete
		return nil, 0
	}
	return newest, max(complete, revision)
}

// snapshotAt returns the objects at a revision, or nil if there is no such snapshot. The other arguments have
// the same meaning as in snapshot.
func (s *watchCache) snapshotAt(revision int64, dispatched kv.Revision, pageSize int64) *snapshot {
	s.touch()
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision >= s.mu.revision && revision <= max(s.completeLocked(dispatched), s.mu.revision) && s.isOpen() {
		newest := s.newestLocked()
		s.pinLocked(newest, pageSize)
		return newest
	}
	for _, snap := range s.mu.pinned {
		if snap.from <= revision && revision <= snap.to {
			return snap
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

// pinLocked pins the newest snapshot for later pages if it has more than one page.
func (s *watchCache) pinLocked(newest *snapshot, pageSize int64) {
	if pageSize == 0 || int64(newest.tree.Len()) <= pageSize || slices.Contains(s.mu.pinned, newest) {
		return
	}
	if len(s.mu.pinned) == maxSnapshots {
		s.mu.pinned = slices.Delete(s.mu.pinned, 0, 1)
	}
	s.mu.pinned = append(s.mu.pinned, newest)
}

// expire drops old snapshots, unused indexes and decoded objects.
func (s *watchCache) expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.log.releaseDecoded()
	s.mu.log.trimIdle(now)
	limit := now.Add(-maxSnapshotAge)
	s.expireIndexesLocked(limit)
	s.mu.pinned = slices.DeleteFunc(s.mu.pinned, func(k *snapshot) bool { return k.taken.Before(limit) })
}

// records yields the objects of a range. An empty end means no upper bound.
func records(t *tree, start, end string) iter.Seq2[*codec.Record, error] {
	return func(yield func(*codec.Record, error) bool) {
		t.Ascend(item{key: start}, func(i item) bool {
			return (end == "" || i.key < end) && yield(i.record, nil)
		})
	}
}

// count returns the number of objects in a range. An empty end means no upper bound.
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
