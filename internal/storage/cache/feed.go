package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage/kv"
)

const (
	// progressDelay is the time that a reader waits for a revision before it requests progress from the
	// backend. The reader repeats the request every progressPeriod.
	progressDelay  = 2 * time.Millisecond
	progressPeriod = 100 * time.Millisecond
	// restartDelay is the delay before a failed watch is opened again.
	restartDelay = 200 * time.Millisecond
	// sweepPeriod is the interval between searches for idle caches and old snapshots.
	sweepPeriod = 30 * time.Second
	// pressurePeriod is the interval between two checks for a shortage of memory.
	pressurePeriod = time.Second
)

// FeedConfig describes a Feed.
type FeedConfig struct {
	// Backend is the watched backend. Required.
	Backend kv.Backend
	// Prefix is the prefix of the watched keys, such as "/registry"; "/" selects all keys. Required.
	Prefix string
	// Logger logs failures of the watch and unreadable changes; nil disables logging.
	Logger *slog.Logger
	// Metrics are the metrics of all caches of a server; nil disables them.
	Metrics *Metrics
	// Idle is the duration after which an unread cache is dropped; 0 means DefaultIdle.
	Idle time.Duration
	// MemoryPressure reports whether the process is short of memory. The feed then evicts half of Encodings
	// every second, and drops caches that were not read for a few seconds. nil means never.
	MemoryPressure func() bool
	// Encodings limits the cached encodings of the records in the caches. It may be nil.
	Encodings *codec.EncodingCache
	// Log limits the log of recent changes of each cache.
	Log LogLimits
}

// stopped is the value of Feed.dispatched while the feed does not run or its watch is broken.
const stopped = -1

// DefaultIdle is the default of FeedConfig.Idle.
const DefaultIdle = 5 * time.Minute

// lowMemoryIdle replaces Idle while the process is short of memory.
const lowMemoryIdle = 5 * time.Second

// Feed is one watch of all keys of a server. It dispatches each event to the caches whose prefix matches the
// key. While the feed does not run, Cachers read the backend. All methods except Run are safe for concurrent
// use.
type Feed struct {
	backend        kv.Backend
	prefix         string
	log            *slog.Logger
	metrics        *Metrics
	idle           time.Duration
	memoryPressure func() bool
	// encodings limits the cached encodings of the records in the caches. It may be nil.
	encodings *codec.EncodingCache
	limits    LogLimits

	// dispatched is the revision up to which every event has been dispatched, or stopped.
	dispatched atomic.Int64
	// caches maps a key prefix (string) to the attached caches with this prefix ([]*watchCache). The slices
	// are immutable and not empty. mu guards writes.
	caches sync.Map

	// decoders tracks the goroutines of watchCache.decode.
	decoders sync.WaitGroup

	mu struct {
		sync.Mutex
		running bool
		waiters []waiter
	}
}

// waiter is a reader that waits until dispatched has reached a revision.
type waiter struct {
	revision kv.Revision
	reached  chan struct{} // closed when the revision is reached or the feed stops
}

// NewFeed returns a feed that does not run yet. An error describes all invalid fields of cfg.
func NewFeed(cfg FeedConfig) (*Feed, error) {
	var errs []error
	if cfg.Backend == nil {
		errs = append(errs, errors.New("a Backend is required"))
	}
	if cfg.Prefix == "" {
		errs = append(errs, errors.New("a Prefix is required"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("cache feed: %w", err)
	}
	f := &Feed{
		backend: cfg.Backend, prefix: keyPrefix(cfg.Prefix),
		log: cfg.Logger, metrics: cfg.Metrics, idle: cfg.Idle, memoryPressure: cfg.MemoryPressure, encodings: cfg.Encodings, limits: cfg.Log.withDefaults(),
	}
	f.dispatched.Store(stopped)
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	if f.metrics == nil {
		f.metrics, _ = NewMetrics(nil) // only registration can fail
	}
	if f.idle == 0 {
		f.idle = DefaultIdle
	}
	if f.memoryPressure == nil {
		f.memoryPressure = func() bool { return false }
	}
	return f, nil
}

// Covers reports whether the feed watches all keys with a prefix.
func (f *Feed) Covers(prefix string) bool {
	return strings.HasPrefix(keyPrefix(prefix), f.prefix)
}

// keyPrefix returns a prefix with a slash at both ends.
func keyPrefix(prefix string) string {
	if prefix = strings.Trim(prefix, "/"); prefix == "" {
		return "/"
	}
	return "/" + prefix + "/"
}

// Run dispatches events until ctx ends, and then returns nil. If the backend is closed before that, it
// returns an error that wraps kv.ErrClosed. After Run has returned, it may be called again; a concurrent call
// returns an error.
func (f *Feed) Run(ctx context.Context) error {
	f.mu.Lock()
	running := f.mu.running
	f.mu.running = true
	f.mu.Unlock()
	if running {
		return errors.New("cache feed: already running")
	}
	defer f.stop()
	from := kv.Revision(unknown) // the revision to watch from
	for {
		var err error
		if from == unknown {
			from, err = f.newest(ctx)
		}
		if err == nil {
			from, err = f.watch(ctx, from)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, kv.ErrClosed):
			return fmt.Errorf("cache feed: %w", err)
		case errors.Is(err, kv.ErrCompacted):
			// Events are lost, so all caches must be loaded again. After pause, no cache attaches before the
			// watch is open again, because it would miss the events before the new watch.
			f.log.Warn("unread changes were compacted, loading all caches again", "revision", from)
			f.pause()
			f.detachFunc(func(*watchCache) bool { return true })
			from = unknown
		default:
			f.log.Warn("watch of the storage backend ended", "revision", from, "error", err)
		}
		// Without a watch, consistent reads use the backend.
		f.pause()
		if !sleep(ctx, restartDelay) {
			return nil
		}
	}
}

// unknown is the value of a revision that must be read from the backend.
const unknown = -1

// newest returns the current revision of the backend.
func (f *Feed) newest(ctx context.Context) (kv.Revision, error) {
	revision, err := f.backend.CurrentRevision(ctx)
	if err != nil {
		return unknown, err
	}
	return revision, nil
}

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// stop closes all caches and waits for their decoders.
func (f *Feed) stop() {
	f.mu.Lock()
	f.mu.running = false
	f.mu.Unlock()
	f.pause()
	f.detachFunc(func(*watchCache) bool { return true })
	f.decoders.Wait()
}

// pause sets dispatched to stopped, and wakes all waiters.
func (f *Feed) pause() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dispatched.Store(stopped)
	for _, w := range f.mu.waiters {
		close(w.reached)
	}
	f.mu.waiters = nil
}

// watch dispatches the events after a revision until the watch of the backend ends. It returns the revision that
// it has reached.
func (f *Feed) watch(ctx context.Context, from kv.Revision) (kv.Revision, error) {
	w, err := f.backend.Watch(ctx, f.prefix, kv.PrefixEnd(f.prefix), from+1)
	if err != nil {
		return from, fmt.Errorf("watch %s: %w", f.prefix, err)
	}
	defer w.Stop()
	f.advance(from)
	sweep := time.NewTicker(min(sweepPeriod, f.idle))
	defer sweep.Stop()
	pressure := time.NewTicker(pressurePeriod)
	defer pressure.Stop()
	for {
		select {
		case batch, ok := <-w.Batches():
			if !ok {
				return from, w.Err()
			}
			f.dispatch(ctx, batch)
			from = max(from, batch.Revision)
			f.advance(from)
		case <-pressure.C:
			if f.memoryPressure() {
				f.encodings.EvictHalf()
			}
		case now := <-sweep.C:
			idle := f.idle
			if f.memoryPressure() {
				idle = min(idle, lowMemoryIdle)
			}
			f.detachFunc(func(s *watchCache) bool {
				s.expire(now)
				return s.idleSince(now.Add(-idle))
			})
		case <-ctx.Done():
			return from, ctx.Err()
		}
	}
}

// delivery contains the events of a batch for one cache.
type delivery struct {
	cache  *watchCache
	events []kv.Event
}

// dispatch passes the events of a batch to the caches of their keys. Each cache receives all its events in
// one call, so that no reader sees only part of a commit.
func (f *Feed) dispatch(ctx context.Context, batch kv.Batch) {
	var deliveries []delivery
	events := batch.Events
	for len(events) > 0 {
		// Adjacent events often belong to the same resource. One lookup is enough for them.
		n := 1
		for n < len(events) && sameParent(events[0].Key, events[n].Key) {
			n++
		}
		for _, s := range f.cachesOf(events[0].Key) {
			i := slices.IndexFunc(deliveries, func(d delivery) bool { return d.cache == s })
			if i < 0 {
				deliveries = append(deliveries, delivery{s, events[:n:n]})
			} else {
				deliveries[i].events = append(deliveries[i].events, events[:n]...)
			}
		}
		events = events[n:]
	}
	for _, d := range deliveries {
		if err := d.cache.processEvents(ctx, d.events); err != nil {
			// Reads then use the backend, which returns the error.
			f.log.Error("a change cannot be read, closing the cache of its resource", "prefix", d.cache.prefix, "error", err)
			f.detach(d.cache)
		}
	}
}

// sameParent reports whether two keys are equal up to their last slash.
func sameParent(a, b string) bool {
	i := strings.LastIndexByte(a, '/')
	return strings.LastIndexByte(b, '/') == i && a[:i] == b[:i]
}

// cachesOf returns the caches whose prefix matches a key.
func (f *Feed) cachesOf(key string) []*watchCache {
	var found []*watchCache
	for i := len(f.prefix) - 1; i < len(key); i++ {
		if key[i] != '/' {
			continue
		}
		if caches, ok := f.caches.Load(key[:i+1]); ok {
			found = append(found, caches.([]*watchCache)...)
		}
	}
	return found
}

// attach adds a cache, which then receives all later events. It returns false if the feed does not run.
func (f *Feed) attach(s *watchCache) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.Running() {
		return false
	}
	var caches []*watchCache
	if old, ok := f.caches.Load(s.prefix); ok {
		caches = old.([]*watchCache)
	}
	f.caches.Store(s.prefix, append(slices.Clip(caches), s))
	return true
}

// detach closes a cache before it removes the cache. When dispatched reaches a revision whose events the
// cache did not receive, readers must find the cache closed.
func (f *Feed) detach(s *watchCache) {
	s.close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if old, ok := f.caches.Load(s.prefix); ok {
		caches := slices.DeleteFunc(slices.Clone(old.([]*watchCache)), func(r *watchCache) bool { return r == s })
		if len(caches) == 0 {
			f.caches.Delete(s.prefix)
		} else {
			f.caches.Store(s.prefix, caches)
		}
	}
}

// Release closes the caches of all stores whose keys have a prefix, and releases their memory. The watches of
// these caches continue with the history of the backend. A nil Feed has no caches.
func (f *Feed) Release(prefix string) {
	if f != nil {
		f.detachFunc(func(s *watchCache) bool { return strings.HasPrefix(s.prefix, prefix) })
	}
}

// detachFunc detaches the caches for which matches returns true.
func (f *Feed) detachFunc(matches func(*watchCache) bool) {
	f.caches.Range(func(_, caches any) bool {
		for _, s := range caches.([]*watchCache) {
			if matches(s) {
				f.detach(s)
			}
		}
		return true
	})
}

// advance sets dispatched, and wakes the waiters for revisions up to it.
func (f *Feed) advance(revision kv.Revision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dispatched.Store(int64(revision))
	f.mu.waiters = slices.DeleteFunc(f.mu.waiters, func(w waiter) bool {
		if w.revision > revision {
			return false
		}
		close(w.reached)
		return true
	})
}

// Dispatched returns the revision up to which every event has been dispatched. It is negative while the feed does
// not run or its watch is broken.
func (f *Feed) Dispatched() kv.Revision { return kv.Revision(f.dispatched.Load()) }

// Running reports whether the watch of the backend is open. It is false until Run has opened the watch, and
// after a failure of the watch until Run has opened it again.
func (f *Feed) Running() bool { return f.dispatched.Load() != stopped }

// errNotRunning is returned by WaitFor if the feed is not running.
var errNotRunning = errors.New("cache feed does not run")

// WaitFor blocks until every event up to a revision has been dispatched or ctx ends. The error is the error
// of ctx or of the backend, or reports that the feed does not run.
func (f *Feed) WaitFor(ctx context.Context, revision kv.Revision) error {
	if f.Dispatched() >= revision {
		return nil
	}
	f.mu.Lock()
	if dispatched := f.Dispatched(); dispatched >= revision || dispatched == stopped {
		f.mu.Unlock()
		if dispatched == stopped {
			return errNotRunning
		}
		return nil
	}
	w := waiter{revision, make(chan struct{})}
	f.mu.waiters = append(f.mu.waiters, w)
	f.mu.Unlock()
	return f.await(ctx, w)
}

// await waits for a revision. The event of the revision usually arrives within progressDelay. Otherwise await
// requests progress, because the revision may have changed only keys that the feed does not watch.
func (f *Feed) await(ctx context.Context, w waiter) error {
	request := time.NewTimer(progressDelay)
	defer request.Stop()
	for {
		select {
		case <-w.reached:
			if !f.Running() {
				return errNotRunning
			}
			return nil
		case <-request.C:
			if err := f.backend.RequestProgress(ctx); err != nil {
				f.removeWaiter(w)
				return fmt.Errorf("request progress: %w", err)
			}
			request.Reset(progressPeriod)
		case <-ctx.Done():
			f.removeWaiter(w)
			return ctx.Err()
		}
	}
}

func (f *Feed) removeWaiter(w waiter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.waiters = slices.DeleteFunc(f.mu.waiters, func(o waiter) bool { return o.reached == w.reached })
}
