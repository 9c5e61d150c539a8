// Package fanout lets many watches share one watch of a backend. Without this package, each watch of the
// embedded store has a goroutine, and each commit compares its keys with all waiting watches. With it, a
// watch without events costs only a map entry.
//
// A watch is live while the hub, which is the Backend of this package, passes events to it. If a watch begins
// at an earlier revision, or its receiver is too slow, it reads the missed events with a separate watch of
// the backend until it has caught up with the hub.
package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Backend is a kv.Backend that serves its watches from one watch of another backend, the shared watch. Create
// it with New. It is safe for concurrent use.
type Backend struct {
	kv.Backend
	prefix string
	// ctx ends the shared watch, and done is closed when the goroutine of the shared watch has ended.
	ctx  context.Context
	done chan struct{}

	mu struct {
		sync.Mutex
		// position is the revision up to which all events were dispatched. It equals stopped while the shared
		// watch is not open.
		position kv.Revision
		// requested is the revision of a pending request for progress, or 0 if there is none.
		requested kv.Revision
		// byPrefix contains the live watches of prefixes that end with a slash; others contains the live
		// watches of other ranges.
		byPrefix map[string][]*watch
		others   map[*watch]struct{}
	}
}

// stopped is the position of a Backend without a shared watch.
const stopped = -1

// New returns a Backend that shares the watches of keys with a prefix; "" selects all keys. Watches of other
// ranges are not shared. The shared watch runs until ctx ends; the live watches then end with kv.ErrClosed.
// If the shared watch fails, the live watches end with its error, and new watches are not shared until it is
// open again. If the backend is unavailable when New is called, the shared watch is opened later. New returns
// all other errors of the backend.
func New(ctx context.Context, backend kv.Backend, prefix string) (*Backend, error) {
	b := &Backend{Backend: backend, ctx: ctx, prefix: prefix, done: make(chan struct{})}
	b.mu.position, b.mu.byPrefix, b.mu.others = stopped, map[string][]*watch{}, map[*watch]struct{}{}
	source, err := b.open()
	if err != nil && !errors.Is(err, kv.ErrUnavailable) {
		return nil, fmt.Errorf("share the watches of %s: %w", prefix, err)
	}
	go b.run(source) // ends with ctx or the backend
	return b, nil
}

// Wait blocks until the context of New has ended or the backend is closed, and the shared watch has ended.
func (b *Backend) Wait() { <-b.done }

// open opens the shared watch, which starts after the newest revision.
func (b *Backend) open() (kv.Watch, error) {
	position, err := b.CurrentRevision(b.ctx)
	if err != nil {
		return nil, err
	}
	end := ""
	if b.prefix != "" {
		end = kv.PrefixEnd(b.prefix)
	}
	source, err := b.Backend.Watch(b.ctx, b.prefix, end, position+1)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.position = position
	return source, nil
}

// reopenDelay is the delay before a failed shared watch is opened again.
const reopenDelay = time.Second

// run dispatches the events of the shared watch, and opens it again if it fails, until ctx ends or the backend is
// closed. source is nil if the shared watch is not open yet.
func (b *Backend) run(source kv.Watch) {
	defer close(b.done)
	for {
		if source == nil {
			if source = b.reopen(); source == nil {
				return
			}
		}
		err := b.follow(source)
		if b.ctx.Err() != nil || errors.Is(err, kv.ErrClosed) {
			b.stop(kv.ErrClosed)
			return
		}
		b.stop(err)
		source = nil
	}
}

// reopen opens the shared watch when the backend is available. It returns nil if ctx ends or the backend is
// closed.
func (b *Backend) reopen() kv.Watch {
	for {
		select {
		case <-time.After(reopenDelay):
		case <-b.ctx.Done():
			return nil
		}
		source, err := b.open()
		if err == nil {
			return source
		}
		if errors.Is(err, kv.ErrClosed) {
			return nil
		}
	}
}

// progressInterval is the interval of progress reports to all live watches, so that their receivers can
// resume after the history was compacted.
const progressInterval = 30 * time.Second

// follow dispatches the events of the shared watch until it ends, and returns its error.
func (b *Backend) follow(source kv.Watch) error {
	defer source.Stop()
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case batch, ok := <-source.Batches():
			if !ok {
				return source.Err()
			}
			b.dispatch(batch)
		case <-ticker.C:
			_ = b.RequestProgress(b.ctx) // source reports a permanent error
		}
	}
}

// stop ends all live watches with an error. Until the next call of open, watches cannot be live.
func (b *Backend) stop(err error) {
	b.mu.Lock()
	b.mu.position = stopped
	all := b.liveLocked()
	clear(b.mu.byPrefix)
	clear(b.mu.others)
	b.mu.Unlock()
	for _, w := range all {
		w.finish(err)
	}
}

// dispatch passes a batch to the live watches of its keys.
func (b *Backend) dispatch(batch kv.Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var touched []*watch
	for i := range batch.Events {
		b.eachLocked(batch.Events[i].Key, func(w *watch) {
			if len(w.pending) == 0 {
				touched = append(touched, w)
			}
			w.pending = append(w.pending, batch.Events[i])
		})
	}
	b.mu.position = max(b.mu.position, batch.Revision)
	for _, w := range touched {
		w.deliver(kv.Batch{Events: w.pending, Revision: batch.Revision})
		w.pending = nil
	}
	b.reportLocked()
}

// eachLocked calls f for each live watch whose range contains a key.
func (b *Backend) eachLocked(key string, f func(*watch)) {
	for i := range len(key) {
		if key[i] == '/' {
			for _, w := range b.mu.byPrefix[key[:i+1]] {
				f(w)
			}
		}
	}
	for w := range b.mu.others {
		if w.contains(key) {
			f(w)
		}
	}
}

// liveLocked returns all live watches.
func (b *Backend) liveLocked() []*watch {
	var all []*watch
	for _, watches := range b.mu.byPrefix {
		all = append(all, watches...)
	}
	for w := range b.mu.others {
		all = append(all, w)
	}
	return all
}

// reportLocked reports progress to all live watches if progress was requested and the hub has reached the
// requested revision.
func (b *Backend) reportLocked() {
	if b.mu.requested == 0 || b.mu.position < b.mu.requested {
		return
	}
	b.mu.requested = 0
	for _, w := range b.liveLocked() {
		w.deliver(kv.Batch{Revision: b.mu.position})
	}
}

// RequestProgress implements kv.Backend.
func (b *Backend) RequestProgress(ctx context.Context) error {
	revision, err := b.CurrentRevision(ctx)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.mu.requested = max(b.mu.requested, revision)
	b.reportLocked()
	b.mu.Unlock()
	return b.Backend.RequestProgress(ctx)
}

// PrefixRevision implements kv.PrefixRevisioner.
func (b *Backend) PrefixRevision(ctx context.Context, prefix string) (revision kv.Revision, ok bool, err error) {
	return kv.PrefixRevision(ctx, b.Backend, prefix)
}

// Watch implements kv.Backend.
func (b *Backend) Watch(ctx context.Context, start, end string, from kv.Revision) (kv.Watch, error) {
	if from == 0 {
		newest, err := b.CurrentRevision(ctx)
		if err != nil {
			return nil, err
		}
		from = newest + 1
	}
	compacted, err := b.CompactedRevision(ctx)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(start, b.prefix) || b.prefix != "" && (end == "" || end > kv.PrefixEnd(b.prefix)) {
		return b.Backend.Watch(ctx, start, end, from)
	}
	w := newWatch(ctx, b, start, end, from)
	if from < compacted || !b.join(w) { // compacted events might not have been dispatched yet
		own, err := b.Backend.Watch(w.ctx, start, end, from)
		if err != nil {
			w.cancel()
			return nil, err
		}
		w.sending = true
		go w.catchUp(own) // ends with w.ctx, or when the watch is live
	}
	context.AfterFunc(w.ctx, func() { w.finish(nil) })
	return w, nil
}

// join makes a watch live and returns true, unless the hub has already passed the next revision of the watch
// or the watch has ended.
func (b *Backend) join(w *watch) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.position == stopped || b.mu.position >= w.next || w.ctx.Err() != nil {
		return false
	}
	if !w.isPrefix {
		b.mu.others[w] = struct{}{}
		return true
	}
	b.mu.byPrefix[w.start] = append(b.mu.byPrefix[w.start], w)
	return true
}

// leave ends the delivery of events to a watch.
func (b *Backend) leave(w *watch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.others, w)
	watches := slices.DeleteFunc(b.mu.byPrefix[w.start], func(other *watch) bool { return other == w })
	if len(watches) > 0 {
		b.mu.byPrefix[w.start] = watches
	} else {
		delete(b.mu.byPrefix, w.start)
	}
}
