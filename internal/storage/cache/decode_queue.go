package cache

import (
	"context"

	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// undecoded is the queue of events whose values must be decrypted first, which may block on a key
// service, and of all later events. One goroutine decodes them and ends when the queue is empty.
// watchCache.mu guards it.
type undecoded struct {
	// queue is in order, and has an event until its change was applied.
	queue []kv.Event
	// decoding: the goroutine runs.
	decoding bool
	// shortened is closed when queue gets shorter; nil without waiters.
	shortened chan struct{}
}

// decodeBatch is how many events are decoded before their changes are applied.
const decodeBatch = 64

// completeLocked returns the revision up to which the cache has every change, given
// that up to which the feed has dispatched.
func (s *watchCache) completeLocked(dispatched kv.Revision) int64 {
	if len(s.mu.queue) > 0 {
		return min(int64(dispatched), int64(s.mu.queue[0].Revision)-1)
	}
	return int64(dispatched)
}

// awaitDecoded waits until no change up to a revision waits to be decoded. It is
// false when ctx ends first, or the cache is closed.
func (s *watchCache) awaitDecoded(ctx context.Context, revision kv.Revision) bool {
	for {
		s.mu.RLock()
		behind := len(s.mu.queue) > 0 && s.mu.queue[0].Revision <= revision
		s.mu.RUnlock()
		if !behind {
			return true
		}
		select {
		case <-s.shortened():
		case <-s.closed:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// shortened returns a channel that is closed when the queue next gets shorter.
func (s *watchCache) shortened() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.queue) == 0 {
		done := make(chan struct{})
		close(done)
		return done
	}
	if s.mu.shortened == nil {
		s.mu.shortened = make(chan struct{})
	}
	return s.mu.shortened
}

// decodeLaterLocked queues events, and starts the goroutine if it does not run. The
// feed owns it: Run returns after it.
func (s *watchCache) decodeLaterLocked(events []kv.Event) {
	s.mu.queue = append(s.mu.queue, events...)
	if !s.mu.decoding {
		s.mu.decoding = true
		s.feed.decoders.Go(s.decode)
	}
}

// decode applies the queue until it is empty or the cache closed. Where a value
// does not decode, it closes the cache: readers get the error from the store.
func (s *watchCache) decode() {
	for {
		s.mu.RLock()
		events := s.mu.queue[:min(len(s.mu.queue), decodeBatch)]
		s.mu.RUnlock()
		for len(events) > 0 && s.isOpen() {
			n := commitOf(events)
			if n == len(events) { // the rest of the commit may be behind the batch
				s.mu.RLock()
				n = commitOf(s.mu.queue)
				events = s.mu.queue[:n]
				s.mu.RUnlock()
			}
			changes, err := s.decodeCommit(events[:n])
			if err != nil {
				s.feed.log.Error("a change cannot be read; its resource is not cached", "prefix", s.prefix, "error", err)
				s.feed.detach(s)
				break
			}
			s.decoded(changes, n)
			events = events[n:]
		}
		if s.finished() {
			return
		}
	}
}

// decodeCommit makes the changes of one commit without a lock. Only this
// goroutine changes the tree while there is a queue.
func (s *watchCache) decodeCommit(events []kv.Event) ([]*storage.Change, error) {
	s.mu.RLock()
	before := s.beforeLocked(events)
	s.mu.RUnlock()
	return s.changes(s.life, events, before)
}

// decoded applies the changes of the first n events of the queue.
func (s *watchCache) decoded(changes []*storage.Change, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyLocked(changes)
	s.broadcastLocked()
	s.mu.queue = s.mu.queue[n:]
	if s.mu.shortened != nil {
		close(s.mu.shortened)
		s.mu.shortened = nil
	}
}

// finished reports whether the queue is empty or the cache closed, and ends decoding
// then.
func (s *watchCache) finished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isOpen() {
		s.mu.queue = nil
	}
	if len(s.mu.queue) == 0 {
		s.mu.queue, s.mu.decoding = nil, false // release the memory
		return true
	}
	return false
}
