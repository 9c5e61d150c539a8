// Package cache is the watch cache. A Cacher decorates a storage.Store: it serves reads and watches from
// memory, with the same consistency as the Store, and passes writes to it. It is independent of the
// encoding and encryption of values.
//
// It differs from kube-apiserver's watch cache in two ways. One watch of the backend feeds the caches of all
// resources. Watches have no buffers: they read a shared log of changes, each at its own position, and a
// waiting watch needs no goroutine.
//
// A Cacher calls its Store; a Store never calls a Cacher (package storage has a diagram). Files:
//
//   - cache: the Cacher of one resource. It loads its watchCache on the first read, and drops it after an
//     idle period.
//   - feed: the watch of all stored keys. It dispatches events to the watchCaches, and publishes the
//     revision up to which it has done so.
//   - watchcache: the objects of a resource in a copy-on-write tree, and snapshots of it.
//   - recent_writes: written records whose events have not arrived yet.
//   - index: the objects by the value of a field.
//   - decode_queue: events that must be decrypted before they are applied.
//   - log: the recent changes of a resource, indexed by the topics that watches select.
//   - stream: the position of a watch in the log, or in the history of the backend.
//   - notifier: wakes waiting watches.
package cache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/telemetry/tracing"
)

const (
	// maxWait is the maximum time for which a read waits until the cache has reached a revision.
	maxWait = 3 * time.Second
	// loadTimeout is the timeout for loading a cache.
	loadTimeout = time.Minute
	// loadBackoff is the time after a failed load during which reads use the store.
	loadBackoff = 5 * time.Second
)

// Config describes the Cacher of one resource.
type Config struct {
	// Store is the decorated store. Required.
	Store Store
	// Feed dispatches events. It must watch the backend of the store. Required.
	Feed *Feed
	// IndexFields are names of fields (codec.Kind.Fields) that many lists and watches compare with a value,
	// such as spec.nodeName of pods. A list that requires a value then evaluates only the objects with this
	// value, and a change wakes only the watches that require the old or the new value of the field.
	IndexFields []string
}

// Store is the storage that a Cacher decorates: a storage.Interface that also resolves requests,
// maps names to keys and creates changes from events of the backend. A *storage.Store implements
// it. The calls go in one direction: a Store does not call the Cacher. It is safe for concurrent
// use.
type Store interface {
	storage.Interface
	storage.WatchReader
	GroupResource() schema.GroupResource
	// Backend returns the backend that the Feed watches.
	Backend() kv.Backend
	Prefix() string
	Key(types.NamespacedName) (string, error)
	KeyOf(types.NamespacedName) string
	PlanList(namespace string, options rest.ListOptions) (*storage.ListPlan, error)
	Page(ctx context.Context, list *rest.List, plan *storage.ListPlan, records iter.Seq2[*codec.Record, error], total func() int64, done func(evaluated, returned int64)) iter.Seq2[*codec.Record, error]
	PlanWatch(namespace string, options rest.ListOptions) (*storage.WatchPlan, error)
	// NewChange may block on a key service, unless NonBlocking returns true.
	NewChange(context.Context, *kv.Event, *codec.Record) (*storage.Change, error)
	NonBlocking(*kv.Event) bool
}

// Cacher is a storage.Interface that reads from memory. It has no objects in memory before the first read and
// after an idle period (FeedConfig.Idle). If the feed does not run or a load fails, the Cacher reads the
// Store. It is safe for concurrent use.
type Cacher struct {
	store       Store
	feed        *Feed
	indexFields []string

	// loaded is the loaded cache. If it is nil or closed, the next read loads a new one.
	loaded atomic.Pointer[watchCache]
	// loading is a mutex that is held while a cache is loaded. It is a channel, so that readers can wait for
	// it with a context.
	loading chan struct{}
	// loadFailed is the time of the last failed load, in Unix nanoseconds.
	loadFailed atomic.Int64
	// size is the last known size of the cache; nil before the first call of Cached with a loaded cache.
	size atomic.Pointer[size]
}

var _ storage.Interface = (*Cacher)(nil)

// New returns the Cacher of a store. An error describes all invalid fields of cfg.
func New(cfg Config) (*Cacher, error) {
	var errs []error
	if cfg.Store == nil {
		errs = append(errs, errors.New("a Store is required"))
	}
	if cfg.Feed == nil {
		errs = append(errs, errors.New("a Feed is required"))
	}
	if cfg.Store != nil && cfg.Feed != nil && !strings.HasPrefix(cfg.Store.Prefix(), cfg.Feed.prefix) {
		errs = append(errs, fmt.Errorf("the Store's keys start with %s, the Feed watches %s only", cfg.Store.Prefix(), cfg.Feed.prefix))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	return &Cacher{store: cfg.Store, feed: cfg.Feed, indexFields: cfg.IndexFields, loading: make(chan struct{}, 1)}, nil
}

// getOrLoad returns the loaded cache. If necessary, it loads the cache, and blocks until it is loaded. It
// returns nil if the store must be read instead.
func (c *Cacher) getOrLoad(ctx context.Context) *watchCache {
	if st := c.loaded.Load(); st != nil && st.isOpen() {
		return st
	}
	select {
	case c.loading <- struct{}{}:
		defer func() { <-c.loading }()
	case <-ctx.Done():
		return nil
	}
	if st := c.loaded.Load(); st != nil && st.isOpen() {
		return st
	}
	if !c.feed.Running() || time.Now().UnixNano() < c.loadFailed.Load()+int64(loadBackoff) {
		return nil
	}
	st, err := c.load(ctx)
	if err != nil {
		// The caller then reads the store, which returns the error.
		c.loadFailed.Store(time.Now().UnixNano())
		return nil
	}
	c.loaded.Store(st)
	if !st.isOpen() {
		// The cache was closed before it was stored in loaded, so its release function did not remove it.
		c.loaded.CompareAndSwap(st, nil)
		return nil
	}
	return st
}

// load returns a loaded cache. It attaches the cache to the feed before it lists the objects, so that events
// during the list are buffered. The load continues after ctx ends, because other readers wait for it.
func (c *Cacher) load(ctx context.Context) (*watchCache, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	st := newWatchCache(c.store, c.feed, func(st *watchCache) { c.loaded.CompareAndSwap(st, nil) })
	if !c.feed.attach(st) {
		return nil, errNotRunning
	}
	list, err := c.store.List(ctx, "", rest.ListOptions{})
	if err == nil {
		err = st.load(ctx, list.Items, list.Revision)
	}
	if err != nil {
		c.feed.detach(st)
		return nil, fmt.Errorf("load cache of %s: %w", c.store.GroupResource(), err)
	}
	return st, nil
}

// current returns the loaded cache after it has reached the current revision of the store. It returns nil if
// the store must be read instead.
func (c *Cacher) current(ctx context.Context) (*watchCache, error) {
	st := c.getOrLoad(ctx)
	if st == nil {
		return nil, ctx.Err()
	}
	revision, err := c.newest(ctx)
	if err != nil {
		return nil, err
	}
	if !c.wait(ctx, st, revision) {
		if ctx.Err() == nil {
			st.report.consistentFallback.Inc()
		}
		return nil, ctx.Err()
	}
	st.report.consistentOK.Inc()
	return st, nil
}

// newest returns the revision that a consistent read requires. Reads with a ReadPoint are lookups by the
// server itself. If the backend supports it, these lookups require only the newest revision of their
// resource, so that writes of other resources do not delay them.
func (c *Cacher) newest(ctx context.Context) (kv.Revision, error) {
	backend, point := c.store.Backend(), rest.ReadPointFrom(ctx)
	if point != nil {
		if revision, ok, err := kv.PrefixRevision(ctx, backend, c.store.Prefix()); ok || err != nil {
			return revision, err
		}
	}
	revision, err := point.Revision(backend, func() (int64, error) {
		newest, err := backend.CurrentRevision(ctx)
		return int64(newest), err
	})
	return kv.Revision(revision), err
}

// wait blocks until the cache has applied all changes up to a revision. It returns false after maxWait, if ctx
// ends, or if the cache is closed.
func (c *Cacher) wait(ctx context.Context, st *watchCache, revision kv.Revision) bool {
	// Revision 0 is available even while the watch of the feed is broken.
	if revision > 0 && c.feed.Dispatched() < revision {
		start := time.Now()
		ctx, cancel := context.WithTimeout(ctx, maxWait)
		err := c.feed.WaitFor(ctx, revision)
		cancel()
		st.report.waited(time.Since(start))
		if err != nil {
			return false
		}
	}
	return st.awaitDecoded(ctx, revision) && st.isOpen()
}

// notOlderThan returns the loaded cache after it has reached a revision. It returns nil if the store must be
// read instead, and a *FutureRevisionError if the revision is not reached within maxWait or before the deadline of
// the request or watch, as in kube-apiserver.
func (c *Cacher) notOlderThan(ctx context.Context, revision kv.Revision) (*watchCache, error) {
	st := c.getOrLoad(ctx)
	if st == nil {
		return nil, ctx.Err()
	}
	if c.wait(ctx, st, revision) {
		return st, nil
	}
	dispatched := c.feed.Dispatched()
	timedOut := errors.Is(context.Cause(ctx), context.DeadlineExceeded) && dispatched < revision
	if ctx.Err() != nil && !timedOut || dispatched == stopped || !st.isOpen() {
		return nil, ctx.Err()
	}
	return nil, &storage.FutureRevisionError{Requested: int64(revision), Current: int64(dispatched)}
}

// Get implements storage.Interface.
func (c *Cacher) Get(ctx context.Context, name types.NamespacedName, options storage.ReadOptions) (*codec.Record, error) {
	key, err := c.store.Key(name)
	if err != nil {
		return nil, err
	}
	revision, err := storage.ParseResourceVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if options.Exact {
		return c.store.Get(ctx, name, options) // the cache has no history of objects
	}
	st, err := c.cacheAt(ctx, options.ResourceVersion != "", revision)
	if err != nil {
		return nil, err
	}
	if st == nil {
		return c.store.Get(ctx, name, options)
	}
	record := st.get(key)
	if record == nil {
		return nil, fmt.Errorf("%w: %s", storage.ErrNotFound, name)
	}
	return record, codec.Convert(ctx, record)
}

// cacheAt returns the loaded cache after it has reached the revision min if any is set, and the newest
// revision otherwise. It returns nil if the store must be read instead.
func (c *Cacher) cacheAt(ctx context.Context, any bool, min kv.Revision) (*watchCache, error) {
	if any {
		return c.notOlderThan(ctx, min)
	}
	return c.current(ctx)
}

// List implements storage.Interface.
func (c *Cacher) List(ctx context.Context, namespace string, options rest.ListOptions) (*rest.List, error) {
	plan, err := c.store.PlanList(namespace, options)
	if err != nil {
		return nil, err
	}
	return c.ListPlanned(ctx, plan)
}

// ListPlanned implements storage.WatchReader.
func (c *Cacher) ListPlanned(ctx context.Context, plan *storage.ListPlan) (list *rest.List, err error) {
	ctx, span := tracing.Start(ctx, "List from cache")
	defer func() { span.End(err) }()
	var st *watchCache
	var snap *snapshot
	revision := int64(plan.At)
	if plan.At > 0 {
		st, snap = c.exactSnapshot(ctx, plan)
	} else if st, err = c.cacheAt(ctx, plan.Any, plan.Min); err != nil {
		return nil, err
	} else if st != nil {
		snap, revision = st.snapshot(c.feed.Dispatched(), plan.Limit)
	}
	if snap == nil {
		return c.store.ListPlanned(ctx, plan)
	}
	list = &rest.List{Revision: revision}
	total := func() (n int64) {
		for start, end := range plan.Ranges {
			n += count(snap.tree, start, end)
		}
		return n
	}
	items, index := c.candidates(st, snap, plan)
	list.Items = c.store.Page(ctx, list, plan, withContext(ctx, items), total, func(evaluated, returned int64) {
		st.report.listed(index, evaluated, returned)
	})
	return list, nil
}

// candidates returns the objects of a snapshot that the selectors of a plan must evaluate, and the name of
// the index used, which is empty if no index is used.
func (c *Cacher) candidates(st *watchCache, snap *snapshot, plan *storage.ListPlan) (iter.Seq2[*codec.Record, error], string) {
	if term := c.indexTermOf(&plan.Selection); term.field != "" {
		if t := st.byField(snap, term.field); t != nil {
			return inRanges(plan, func(start, end string) iter.Seq2[*codec.Record, error] {
				return recordsWithValue(t, term.value, start, end)
			}), term.name()
		}
	}
	return inRanges(plan, func(start, end string) iter.Seq2[*codec.Record, error] { return records(snap.tree, start, end) }), ""
}

// inRanges yields the objects of all ranges of a plan in order.
func inRanges(plan *storage.ListPlan, of func(start, end string) iter.Seq2[*codec.Record, error]) iter.Seq2[*codec.Record, error] {
	return func(yield func(*codec.Record, error) bool) {
		for start, end := range plan.Ranges {
			for record, err := range of(start, end) {
				if !yield(record, err) {
					return
				}
			}
		}
	}
}

// exactSnapshot returns the objects at the revision of a plan. It returns nil if the cache does not have
// these objects, or if the revision is compacted. A revision expires for all resources at the same time, even
// if the objects of this resource have not changed.
func (c *Cacher) exactSnapshot(ctx context.Context, plan *storage.ListPlan) (*watchCache, *snapshot) {
	st := c.getOrLoad(ctx)
	if st == nil {
		return nil, nil
	}
	dispatched := c.feed.Dispatched()
	if plan.At > dispatched {
		// The event of a recent commit might not have been dispatched yet.
		current, err := c.store.Backend().CurrentRevision(ctx)
		if err != nil || plan.At > current || !c.wait(ctx, st, plan.At) {
			return nil, nil
		}
		dispatched = c.feed.Dispatched()
	}
	if compacted, err := c.store.Backend().CompactedRevision(ctx); err != nil || plan.At < compacted {
		return nil, nil
	}
	return st, st.snapshotAt(int64(plan.At), dispatched, plan.Limit)
}

// withContext ends a long iteration with the error of ctx when ctx ends.
func withContext(ctx context.Context, records iter.Seq2[*codec.Record, error]) iter.Seq2[*codec.Record, error] {
	return func(yield func(*codec.Record, error) bool) {
		n := 0
		for record, err := range records {
			if n++; n%256 == 0 && ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			if !yield(record, err) {
				return
			}
		}
	}
}

// Watch implements storage.Interface.
func (c *Cacher) Watch(ctx context.Context, namespace string, options rest.ListOptions) (rest.Watch, error) {
	plan, err := c.store.PlanWatch(namespace, options)
	if err != nil {
		return nil, err
	}
	if c.getOrLoad(ctx) == nil {
		return storage.OpenWatch(ctx, c.store, plan)
	}
	return storage.OpenWatch(ctx, c, plan)
}

// CurrentRevision implements storage.WatchReader.
func (c *Cacher) CurrentRevision(ctx context.Context) (kv.Revision, error) {
	return c.store.CurrentRevision(ctx)
}

// Create implements storage.Interface.
func (c *Cacher) Create(ctx context.Context, obj codec.Object, options storage.WriteOptions) (*codec.Record, error) {
	return c.store.Create(ctx, obj, options)
}

// Delete implements storage.Interface. Its first attempt uses the newest known record of the object.
func (c *Cacher) Delete(ctx context.Context, name types.NamespacedName, validate func(codec.Object) error, options storage.UpdateOptions) (*codec.Record, error) {
	options.Cached = c.newestKnown(name, options.Cached)
	return c.store.Delete(ctx, name, validate, options)
}

// DeleteCorrupt implements storage.Interface.
func (c *Cacher) DeleteCorrupt(ctx context.Context, name types.NamespacedName, dryRun bool) (int64, error) {
	return c.store.DeleteCorrupt(ctx, name, dryRun)
}

// newestKnown returns the newer of the cached record of an object and the given one. It returns nil if both
// are nil.
func (c *Cacher) newestKnown(name types.NamespacedName, given *codec.Record) *codec.Record {
	st := c.loaded.Load()
	if st == nil || !st.isOpen() {
		return given
	}
	key, err := c.store.Key(name)
	if err != nil {
		return given
	}
	if cached := st.latest(key); cached != nil && (given == nil || cached.Revision() > given.Revision()) {
		return cached
	}
	return given
}

// Prepare implements storage.Interface.
func (c *Cacher) Prepare(ctx context.Context, req storage.OpRequest) (*storage.Op, error) {
	return c.store.Prepare(ctx, req)
}

// Cached implements storage.Interface.
func (c *Cacher) Cached() (objects, bytes int64, known bool) {
	if st := c.loaded.Load(); st != nil && st.isOpen() {
		current := st.size()
		if last := c.size.Load(); last == nil || *last != current {
			c.size.Store(&current)
		}
	}
	if last := c.size.Load(); last != nil {
		return last.objects, last.bytes, true
	}
	return 0, 0, false
}

// Count implements storage.Interface.
func (c *Cacher) Count(ctx context.Context) (int64, error) {
	if st := c.loaded.Load(); st != nil && st.isOpen() {
		if st, err := c.current(ctx); err != nil {
			return 0, err
		} else if st != nil {
			return st.len(), nil
		}
	}
	return c.store.Count(ctx)
}
