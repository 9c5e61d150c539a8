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
	// progressDelay is how long a reader waits for a revision before progress is requested
	// of the backend, and progressPeriod how often that is repeated.
	progressDelay  = 2 * time.Millisecond
	progressPeriod = 100 * time.Millisecond
	// restartDelay is the time between two watches.
	restartDelay = 200 * time.Millisecond
	// tidyPeriod is the interval between two drops of idle caches and old snapshots.
	tidyPeriod = 30 * time.Second
	// pressurePeriod is the interval between two checks for a shortage of memory.
	pressurePeriod = time.Second
)

// FeedConfig describes a Feed.
type FeedConfig struct {
	// Backend is watched. Required.
	Backend kv.Backend
	// Prefix of the keys watched, such as "/registry", or "/" for all. Required.
	Prefix string
	// Logger logs failures of the watch; nil discards.
	Logger *slog.Logger
	// Metrics are the metrics of all caches of a server; nil disables them.
	Metrics *Metrics
	// Idle is the duration after which an unread cache is dropped; 0 means DefaultIdle.
	Idle time.Duration
	// Pressed reports whether the process is short of memory. The feed then evicts half of
	// Encodings every second, and drops caches that were not read for five seconds. nil means
	// never.
	Pressed func() bool
	// Encodings has the cached encodings of the records in the caches; nil is valid.
	Encodings *codec.Memory
	// Log limits the log of recent changes of each cache.
	Log LogLimits
}

// stopped is the value of dispatched while the feed is stopped.
const stopped = -1

// DefaultIdle is the default of FeedConfig.Idle.
const DefaultIdle = 5 * time.Minute

// pressedIdle replaces Idle while the process is short of memory.
const pressedIdle = 5 * time.Second

// Feed is the one watch of everything that a server stores. It dispatches each
// event to the caches of its key. While it does not run, Cachers read the backend.
type Feed struct {
	backend kv.Backend
	prefix  string
	log     *slog.Logger
	metrics *Metrics
	idle    time.Duration
	pressed func() bool
	// encodings has the cached encodings of the records in the caches; may be nil.
	encodings *codec.Memory
	limits    LogLimits

	// dispatched: every event up to this revision has been dispatched. It is
	// stopped while the feed does not run, or its watch is broken.
	dispatched atomic.Int64
	// caches has the attached caches by the prefix of their keys: string to
	// []*watchCache, never empty. The slices are immutable. mu guards writes.
	caches sync.Map

	// decoders are the goroutines of watchCache.decode.
	decoders sync.WaitGroup

	mu struct {
		sync.Mutex
		running bool
		waiters []waiter
	}
}

// waiter waits until dispatched has reached a revision.
type waiter struct {
	revision kv.Revision
	reached  chan struct{}
}

// NewFeed returns a feed, which is idle before Run.
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
		log: cfg.Logger, metrics: cfg.Metrics, idle: cfg.Idle, pressed: cfg.Pressed, encodings: cfg.Encodings, limits: cfg.Log.withDefaults(),
	}
	f.dispatched.Store(stopped)
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	if f.metrics == nil {
		f.metrics, _ = NewMetrics(nil) // fails by registering only
	}
	if f.idle == 0 {
		f.idle = DefaultIdle
	}
	if f.pressed == nil {
		f.pressed = func() bool { return false }
	}
	return f, nil
}

// Covers reports whether the feed watches every key below a prefix.
func (f *Feed) Covers(prefix string) bool {
	return strings.HasPrefix(keyPrefix(prefix), f.prefix)
}

// keyPrefix returns a prefix in the form of keys, with a slash at either end.
func keyPrefix(prefix string) string {
	if prefix = strings.Trim(prefix, "/"); prefix == "" {
		return "/"
	}
	return "/" + prefix + "/"
}

// Run dispatches events until ctx ends, which is no error, or the backend is closed
// (kv.ErrClosed). It may be called again afterwards, but not concurrently.
func (f *Feed) Run(ctx context.Context) error {
	f.mu.Lock()
	running := f.mu.running
	f.mu.running = true
	f.mu.Unlock()
	if running {
		return errors.New("cache feed: runs already")
	}
	defer f.stop()
	from := kv.Revision(unknown)
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
			// The events in between are lost: every cache must be loaded again.
			f.log.Warn("changes were compacted before the cache had seen them", "revision", from)
			f.detachFunc(func(*watchCache) bool { return true })
			from = unknown
		default:
			f.log.Warn("watch of the storage backend ended", "revision", from, "error", err)
		}
		// Until the next watch, consistent reads go to the backend.
		f.pause()
		if !sleep(ctx, restartDelay) {
			return nil
		}
	}
}

// unknown is a revision that must be determined.
const unknown = -1

func (f *Feed) newest(ctx context.Context) (kv.Revision, error) {
	revision, err := f.backend.CurrentRevision(ctx)
	if err != nil {
		return unknown, err
	}
	return revision, nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// stop closes all caches, and waits for their decoders.
func (f *Feed) stop() {
	f.mu.Lock()
	f.mu.running = false
	f.mu.Unlock()
	f.pause()
	f.detachFunc(func(*watchCache) bool { return true })
	f.decoders.Wait()
}

// pause marks the feed as not running, and wakes all waiters.
func (f *Feed) pause() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dispatched.Store(stopped)
	for _, w := range f.mu.waiters {
		close(w.reached)
	}
	f.mu.waiters = nil
}

// watch dispatches the events after a revision until the backend's watch ends, and
// returns the revision that it reached.
func (f *Feed) watch(ctx context.Context, from kv.Revision) (kv.Revision, error) {
	w, err := f.backend.Watch(ctx, f.prefix, kv.PrefixEnd(f.prefix), from+1)
	if err != nil {
		return from, fmt.Errorf("watch %s: %w", f.prefix, err)
	}
	defer w.Stop()
	f.advance(from)
	tidy := time.NewTicker(min(tidyPeriod, f.idle))
	defer tidy.Stop()
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
			if f.pressed() {
				f.encodings.EvictHalf()
			}
		case now := <-tidy.C:
			idle := f.idle
			if f.pressed() {
				idle = min(idle, pressedIdle)
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

// delivery is the part of a batch that is for one cache.
type delivery struct {
	cache  *watchCache
	events []kv.Event
}

// dispatch passes the events of a batch to the caches of their keys, to each all of
// its events in one call: no reader sees half a commit.
func (f *Feed) dispatch(ctx context.Context, batch kv.Batch) {
	var deliveries []delivery
	events := batch.Events
	for len(events) > 0 {
		// Adjacent events are often of one resource, and looked up together.
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
			// Reads go to the backend, which returns the error.
			f.log.Error("a change cannot be read; its resource is not cached", "prefix", d.cache.prefix, "error", err)
			f.detach(d.cache)
		}
	}
}

// sameParent reports whether two keys are equal up to their last slash.
func sameParent(a, b string) bool {
	i := strings.LastIndexByte(a, '/')
	return strings.LastIndexByte(b, '/') == i && a[:i] == b[:i]
}

// cachesOf returns the caches that have a key in their prefix.
func (f *Feed) cachesOf(key string) []*watchCache {
	var found []*watchCache
	for i := len(f.prefix); i < len(key); i++ {
		if key[i] != '/' {
			continue
		}
		if caches, ok := f.caches.Load(key[:i+1]); ok {
			found = append(found, caches.([]*watchCache)...)
		}
	}
	return found
}

// attach adds a cache: all later events are dispatched to it. It returns false when
// the feed does not run.
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

// detach closes a cache and removes it, in this order: a reader that sees a revision
// as dispatched that the cache did not get must see the cache closed.
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

// detachFunc detaches the caches for which chosen returns true.
func (f *Feed) detachFunc(chosen func(*watchCache) bool) {
	f.caches.Range(func(_, caches any) bool {
		for _, s := range caches.([]*watchCache) {
			if chosen(s) {
				f.detach(s)
			}
		}
		return true
	})
}

// advance publishes the revision up to which events are dispatched, and wakes its
// waiters.
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

// Dispatched returns the revision up to which every event has been dispatched. It is negative while the feed does not run or its watch is broken.
func (f *Feed) Dispatched() kv.Revision { return kv.Revision(f.dispatched.Load()) }

// Running reports whether caches are fed. It becomes true soon after Run, and is
// false for a while when the backend's watch breaks.
func (f *Feed) Running() bool { return f.dispatched.Load() != stopped }

// errNotRunning is returned by WaitFor when the feed does not run.
var errNotRunning = errors.New("cache feed does not run")

// WaitFor waits until every event up to a revision is dispatched. The error is
// ctx's, the backend's, or that the feed does not run.
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

// await waits for a revision, which is usually in transit. It requests progress only if no watched
// event can deliver the revision.
func (f *Feed) await(ctx context.Context, w waiter) error {
	ask := time.NewTimer(progressDelay)
	defer ask.Stop()
	for {
		select {
		case <-w.reached:
			if !f.Running() {
				return errNotRunning
			}
			return nil
		case <-ask.C:
			if err := f.backend.RequestProgress(ctx); err != nil {
				f.removeWaiter(w)
				return fmt.Errorf("request progress: %w", err)
			}
			ask.Reset(progressPeriod)
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
