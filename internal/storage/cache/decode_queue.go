package cache

import (
	"context"

	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// decodeQueue contains events whose values must be decrypted, and all later events of the cache. Decryption
// may block on a key service. One goroutine, the decoder, applies the events and ends when the queue is
// empty. watchCache.mu guards the fields.
type decodeQueue struct {
	// queue contains the events in order. An event stays in the queue until its change was applied.
	queue []kv.Event
	// decoding is set while the decoder runs.
	decoding bool
	// dequeued is closed when events are removed from queue; nil without waiters.
	dequeued chan struct{}
}

// decodeBatch is the maximum number of events that the decoder takes from the queue at a time.
const decodeBatch = 64

// completeLocked returns the revision up to which the cache has applied every change. dispatched is the
// revision up to which the feed has dispatched events.
func (s *watchCache) completeLocked(dispatched kv.Revision) int64 {
	switch {
	case !s.isOpen(): // the decoder drops the queue, and the feed dispatches no more events to this cache
		return s.mu.revision
	case len(s.mu.queue) > 0:
		return min(int64(dispatched), int64(s.mu.queue[0].Revision)-1)
	}
	return int64(dispatched)
}

// awaitDecoded blocks until all dispatched changes up to a revision were applied. It returns false if ctx
// ends first or the cache is closed.
func (s *watchCache) awaitDecoded(ctx context.Context, revision kv.Revision) bool {
	for {
		s.mu.RLock()
		behind := len(s.mu.queue) > 0 && s.mu.queue[0].Revision <= revision
		s.mu.RUnlock()
		if !behind {
			return true
		}
		select {
		case <-s.awaitDequeue():
		case <-s.closed:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// awaitDequeue returns a channel that is closed when events are next removed from the queue. If the queue is
// empty, the channel is already closed.
func (s *watchCache) awaitDequeue() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.queue) == 0 {
		done := make(chan struct{})
		close(done)
		return done
	}
	if s.mu.dequeued == nil {
		s.mu.dequeued = make(chan struct{})
	}
	return s.mu.dequeued
}

// enqueueLocked appends events to the queue, and starts the decoder if it does not run. Feed.Run returns
// after the decoder has ended.
func (s *watchCache) enqueueLocked(events []kv.Event) {
	s.mu.queue = append(s.mu.queue, events...)
	if !s.mu.decoding {
		s.mu.decoding = true
		s.feed.decoders.Go(s.decode)
	}
}

// decode applies the events of the queue until it is empty or the cache is closed. It closes the cache if an
// event is unreadable: readers then receive the error from the store.
func (s *watchCache) decode() {
	for {
		s.mu.RLock()
		events := s.mu.queue[:min(len(s.mu.queue), decodeBatch)]
		s.mu.RUnlock()
		for len(events) > 0 && s.isOpen() {
			n := commitLen(events)
			if n == len(events) { // the commit may continue after the batch
				s.mu.RLock()
				n = commitLen(s.mu.queue)
				events = s.mu.queue[:n]
				s.mu.RUnlock()
			}
			changes, err := s.decodeCommit(events[:n])
			if err != nil {
				s.feed.log.Error("a change cannot be read, closing the cache of its resource", "prefix", s.prefix, "error", err)
				s.feed.detach(s)
				break
			}
			s.applyDecoded(changes, n)
			events = events[n:]
		}
		if s.stopDecoder() {
			return
		}
	}
}

// decodeCommit returns the changes of one commit. It can decode without the lock, because only the decoder
// changes the tree while the queue is not empty.
func (s *watchCache) decodeCommit(events []kv.Event) ([]*storage.Change, error) {
	s.mu.RLock()
	before := s.beforeLocked(events)
	s.mu.RUnlock()
	return s.changes(s.lifetime, events, before)
}

// applyDecoded applies the changes of the first n events of the queue and removes these events.
func (s *watchCache) applyDecoded(changes []*storage.Change, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyLocked(changes)
	s.notifyLocked()
	s.mu.queue = s.mu.queue[n:]
	if s.mu.dequeued != nil {
		close(s.mu.dequeued)
		s.mu.dequeued = nil
	}
}

// stopDecoder reports whether the decoder must end, because the queue is empty or the cache is closed.
func (s *watchCache) stopDecoder() bool {
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
