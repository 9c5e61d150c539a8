package cache

import (
	"context"

	"mainstay.dev/mainstay/storage"
	"mainstay.dev/mainstay/storage/kv"
)

// undecoded is the part of a state that is behind the feed: events whose values
// must be decrypted first, which may take as long as a key service takes. One
// goroutine does that, and ends when nothing is left. state.mu guards it.
type undecoded struct {
	// queue is in order, and holds an event until its change was applied.
	queue []kv.Event
	// decoding: a goroutine looks after queue.
	decoding bool
	// shortened is closed when queue gets shorter; nil while nobody waits.
	shortened chan struct{}
}

// decodeBatch is how many events are decoded before their changes are applied.
const decodeBatch = 64

// completeLocked returns up to which revision the state has every change, where
// the feed has dispatched up to the given one.
func (s *watchCache) completeLocked(dispatched kv.Revision) int64 {
	if len(s.mu.queue) > 0 {
		return min(int64(dispatched), int64(s.mu.queue[0].Revision)-1)
	}
	return int64(dispatched)
}

// awaitDecoded waits until no change up to a revision waits to be decoded. It is
// false when ctx ends first, or the state does.
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

// decodeLaterLocked queues events, and has them decoded where that is not being
// done. The feed owns the goroutine: its Run returns after it.
func (s *watchCache) decodeLaterLocked(events []kv.Event) {
	s.mu.queue = append(s.mu.queue, events...)
	if !s.mu.decoding {
		s.mu.decoding = true
		s.feed.decoders.Go(s.decode)
	}
}

// decode applies the queue until it is empty, or the state closed. Where a value
// cannot be read, the state is of no use: readers go to the store, which says
// what is wrong.
func (s *watchCache) decode() {
	for {
		s.mu.RLock()
		events := s.mu.queue[:min(len(s.mu.queue), decodeBatch)]
		s.mu.RUnlock()
		for len(events) > 0 && s.alive() {
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

// finished reports whether the queue is empty, or of no use any more.
func (s *watchCache) finished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.alive() {
		s.mu.queue = nil
	}
	if len(s.mu.queue) == 0 {
		s.mu.queue, s.mu.decoding = nil, false // its memory goes
		return true
	}
	return false
}
