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

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/storage/kv"
)

const (
	// progressPeriod is how often the backend is asked for progress while
	// somebody waits for it.
	progressPeriod = 100 * time.Millisecond
	// restartDelay is how long the feed waits before it watches anew.
	restartDelay = 200 * time.Millisecond
	// tidyPeriod is how often idle caches and old snapshots are looked for.
	tidyPeriod = 30 * time.Second
)

// FeedConfig describes a Feed.
type FeedConfig struct {
	// Backend is watched. Required.
	Backend kv.Backend
	// Prefix of the keys watched, such as "/registry", or "/" for all. Required.
	Prefix string
	// Logger is told when the watch breaks; nil discards.
	Logger *slog.Logger
	// Registerer is given the metrics of all caches; it may be nil.
	Registerer prometheus.Registerer
	// Idle is how long a cache is kept that nobody reads; 0 means DefaultIdle.
	Idle time.Duration
	// Log bounds what each cache holds of the past.
	Log LogLimits
}

// stopped is what dispatched holds while the feed does not run.
const stopped = -1

// DefaultIdle is how long a cache is kept that nobody reads.
const DefaultIdle = 5 * time.Minute

// Feed watches everything that a server stores, once, and hands each change to
// the caches it is for. While it does not run, caches read the backend.
type Feed struct {
	backend kv.Backend
	prefix  string
	log     *slog.Logger
	metrics *metrics
	idle    time.Duration
	limits  LogLimits

	// dispatched: every change up to this revision has been handed over. It is
	// stopped while the feed does not run, or its watch is broken.
	dispatched atomic.Int64
	// caches holds the caches by the prefix of their keys: string to
	// []*state, never empty. The slices are not changed. It is written under
	// mu.
	caches sync.Map

	// decoders are what states have running because values must be decrypted.
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

// NewFeed returns a feed that does nothing until Run.
func NewFeed(cfg FeedConfig) (*Feed, error) {
	var errs []error
	if cfg.Backend == nil {
		errs = append(errs, errors.New("a Backend is required"))
	}
	if cfg.Prefix == "" {
		errs = append(errs, errors.New("a Prefix is required"))
	}
	metrics, err := newMetrics(cfg.Registerer)
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("cache feed: %w", err)
	}
	f := &Feed{
		backend: cfg.Backend, prefix: folder(cfg.Prefix),
		log: cfg.Logger, metrics: metrics, idle: cfg.Idle, limits: cfg.Log.withDefaults(),
	}
	f.dispatched.Store(stopped)
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	if f.idle == 0 {
		f.idle = DefaultIdle
	}
	return f, nil
}

// Covers reports whether the feed watches every key below a prefix.
func (f *Feed) Covers(prefix string) bool {
	return strings.HasPrefix(folder(prefix), f.prefix)
}

// folder is a prefix as keys have it, with a slash at either end.
func folder(prefix string) string {
	if prefix = strings.Trim(prefix, "/"); prefix == "" {
		return "/"
	}
	return "/" + prefix + "/"
}

// Run feeds the caches until ctx ends, which is no error, or the backend is
// closed. It may be called again afterwards, not at the same time.
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
			// What came in between is gone: every cache is loaded anew.
			f.log.Warn("changes were compacted before the cache had seen them", "revision", from)
			f.detachFunc(func(*watchCache) bool { return true })
			from = unknown
		default:
			f.log.Warn("watch of the storage backend ended", "revision", from, "error", err)
		}
		// Until it is mended, who wants the newest reads the backend.
		f.pause()
		if !sleep(ctx, restartDelay) {
			return nil
		}
	}
}

// unknown stands for a revision to be found out.
const unknown = -1

func (f *Feed) newest(ctx context.Context) (kv.Revision, error) {
	revision, err := f.backend.CurrentRevision(ctx)
	if err != nil {
		return unknown, fmt.Errorf("read the current revision: %w", err)
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

// stop ends what lives on the feed; caches read the backend again.
func (f *Feed) stop() {
	f.mu.Lock()
	f.mu.running = false
	f.mu.Unlock()
	f.pause()
	f.detachFunc(func(*watchCache) bool { return true })
	f.decoders.Wait()
}

// pause means that changes do not come at present, to those too who wait.
func (f *Feed) pause() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dispatched.Store(stopped)
	for _, w := range f.mu.waiters {
		close(w.reached)
	}
	f.mu.waiters = nil
}

// watch hands over the changes after a revision, until the watch ends, and
// returns the revision it got to.
func (f *Feed) watch(ctx context.Context, from kv.Revision) (kv.Revision, error) {
	w, err := f.backend.Watch(ctx, f.prefix, kv.PrefixEnd(f.prefix), from+1)
	if err != nil {
		return from, fmt.Errorf("watch %s: %w", f.prefix, err)
	}
	defer w.Stop()
	f.advance(from)
	tidy := time.NewTicker(min(tidyPeriod, f.idle))
	defer tidy.Stop()
	for {
		select {
		case batch, ok := <-w.Batches():
			if !ok {
				return from, w.Err()
			}
			f.dispatch(ctx, batch)
			from = max(from, batch.Revision)
			f.advance(from)
		case now := <-tidy.C:
			f.detachFunc(func(s *watchCache) bool {
				s.expire(now)
				return s.idleSince(now.Add(-f.idle))
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

// dispatch hands the events of a batch to the caches they are for, to each all
// of its own at once: no reader sees half a commit.
func (f *Feed) dispatch(ctx context.Context, batch kv.Batch) {
	var shares []delivery
	events := batch.Events
	for len(events) > 0 {
		// Neighbours are often of one resource, and looked up together.
		n := 1
		for n < len(events) && sameFolder(events[0].Key, events[n].Key) {
			n++
		}
		for _, s := range f.routesOf(events[0].Key) {
			i := slices.IndexFunc(shares, func(sh delivery) bool { return sh.cache == s })
			if i < 0 {
				shares = append(shares, delivery{s, events[:n:n]})
			} else {
				shares[i].events = append(shares[i].events, events[:n]...)
			}
		}
		events = events[n:]
	}
	for _, sh := range shares {
		if err := sh.cache.processEvents(ctx, sh.events); err != nil {
			// Reads go to the backend, which tells what is wrong.
			f.log.Error("a change cannot be read; its resource is not cached", "prefix", sh.cache.prefix, "error", err)
			f.detach(sh.cache)
		}
	}
}

// sameFolder reports whether two keys differ behind their last slash alone.
func sameFolder(a, b string) bool {
	i := strings.LastIndexByte(a, '/')
	return strings.LastIndexByte(b, '/') == i && a[:i] == b[:i]
}

// routesOf returns the caches that hold a key.
func (f *Feed) routesOf(key string) []*watchCache {
	var found []*watchCache
	for i := len(f.prefix); i < len(key); i++ {
		if key[i] != '/' {
			continue
		}
		if routes, ok := f.caches.Load(key[:i+1]); ok {
			found = append(found, routes.([]*watchCache)...)
		}
	}
	return found
}

// attach begins to hand a cache what is committed from now on. It returns false
// when the feed does not run.
func (f *Feed) attach(s *watchCache) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.Running() {
		return false
	}
	var routes []*watchCache
	if old, ok := f.caches.Load(s.prefix); ok {
		routes = old.([]*watchCache)
	}
	f.caches.Store(s.prefix, append(slices.Clip(routes), s))
	return true
}

// detach ends what attach began, and closes the cache. That comes first: who
// sees a revision dispatched that the cache was not given sees it closed.
func (f *Feed) detach(s *watchCache) {
	s.close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if old, ok := f.caches.Load(s.prefix); ok {
		routes := slices.DeleteFunc(slices.Clone(old.([]*watchCache)), func(r *watchCache) bool { return r == s })
		if len(routes) == 0 {
			f.caches.Delete(s.prefix)
		} else {
			f.caches.Store(s.prefix, routes)
		}
	}
}

// detachFunc detaches the caches that are chosen.
func (f *Feed) detachFunc(chosen func(*watchCache) bool) {
	f.caches.Range(func(_, routes any) bool {
		for _, s := range routes.([]*watchCache) {
			if chosen(s) {
				f.detach(s)
			}
		}
		return true
	})
}

// advance publishes that everything up to a revision was handed over.
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

// Dispatched returns the revision up to which every change has been handed to
// the caches. It is negative while the feed does not run or its watch is broken.
func (f *Feed) Dispatched() kv.Revision { return kv.Revision(f.dispatched.Load()) }

// Running reports whether caches are fed. It becomes true soon after Run, and is
// false for a while when the backend's watch breaks.
func (f *Feed) Running() bool { return f.dispatched.Load() != stopped }

// errNotRunning is returned by WaitFor when the feed does not run.
var errNotRunning = errors.New("cache feed does not run")

// WaitFor waits until every change up to a revision has been handed to the
// caches, or ctx ends.
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

func (f *Feed) await(ctx context.Context, w waiter) error {
	ask := time.NewTicker(progressPeriod)
	defer ask.Stop()
	for {
		if err := f.backend.RequestProgress(ctx); err != nil {
			f.removeWaiter(w)
			return fmt.Errorf("request progress: %w", err)
		}
		select {
		case <-w.reached:
			if !f.Running() {
				return errNotRunning
			}
			return nil
		case <-ask.C:
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
