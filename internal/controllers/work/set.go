package work

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Set is a set of open queues, such as all queues of a control plane's controllers. It is safe for concurrent
// use.
type Set struct {
	mu       sync.Mutex
	queues   map[any]func() (busy bool, due time.Time)
	finished atomic.Int64
}

type setKey struct{}

// WithSet returns a context for New. New adds the queue to the set, and Close removes it.
func WithSet(ctx context.Context, s *Set) context.Context { return context.WithValue(ctx, setKey{}, s) }

// Pending returns the state of all queues in the set. busy reports whether any queue has waiting or running
// keys, or will retry a failed key soon. due is the earliest time for which RequeueAt has scheduled a key, or
// zero if no key is scheduled. known is false if the set contains no queue.
func (s *Set) Pending() (busy bool, due time.Time, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pending := range s.queues {
		b, at := pending()
		busy, due = busy || b, earlier(due, at)
	}
	return busy, due, len(s.queues) > 0
}

// Finished returns the number of times that any queue of the set has processed a key.
func (s *Set) Finished() int64 { return s.finished.Load() }

// countFinished counts a processed key. It does nothing if s is nil.
func (s *Set) countFinished() {
	if s != nil {
		s.finished.Add(1)
	}
}

// earlier returns the earlier of two times. A zero time counts as later than any other time.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// add adds a queue to the set. The caller must later call remove. It does nothing if s is nil.
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
