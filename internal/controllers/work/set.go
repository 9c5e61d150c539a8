package work

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Set is a set of open queues, such as the queues of all controllers of a control plane. It is safe for
// concurrent use.
type Set struct {
	mu       sync.Mutex
	queues   map[any]func() (busy bool, due time.Time)
	finished atomic.Int64
}

type setKey struct{}

// WithSet returns a context for New that adds queues to a set until they are closed.
func WithSet(ctx context.Context, s *Set) context.Context { return context.WithValue(ctx, setKey{}, s) }

// Pending returns the state of the queues. busy reports whether a queue has waiting or running keys, or
// retries a failed key soon. due is the earliest time for which RequeueAt has scheduled a key, or zero if
// there is none. known is false if the set has no queue.
func (s *Set) Pending() (busy bool, due time.Time, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pending := range s.queues {
		b, at := pending()
		busy, due = busy || b, earlier(due, at)
	}
	return busy, due, len(s.queues) > 0
}

// Finished returns the number of keys that all queues have processed so far.
func (s *Set) Finished() int64 { return s.finished.Load() }

// countFinished counts a processed key. A nil Set has no effect.
func (s *Set) countFinished() {
	if s != nil {
		s.finished.Add(1)
	}
}

// earlier returns the earlier of two times. A zero time is later than all others.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// add adds a queue. The caller must call remove. A nil Set has no effect.
func (s *Set) add(queue any, pending func() (bool, time.Time)) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues == nil {
		s.queues = map[any]func() (bool, time.Time){}
	}
	s.queues[queue] = pending
}

func (s *Set) remove(queue any) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.queues, queue)
}
