package filters

import (
	"cmp"
	"container/list"
	"context"
	"sync"
	"time"
)

// deadlineContext is the context of a request with a deadline. It ends at the deadline, with its
// parent, or at the end of the request. context.WithDeadline would create a timer and register with
// its parent for each request, although few requests observe the end. If it ends before its parent,
// context.Cause returns the cause of the parent's later end.
type deadlineContext struct {
	context.Context // of the request, without the time

	at      time.Time
	expired func() // called by a goroutine of its own at the time, unless it has ended

	mu     sync.Mutex
	err    error         // why it has ended, if not with its parent
	done   chan struct{} // nil until the first call of Done
	after  map[*func()]struct{}
	unlink func() bool // from the parent; nil while done is, and if that ended first

	// Guarded by the queue's lock.
	place *list.Element
	timer *time.Timer // for contexts outside the queue
}

// Deadline implements context.Context.
func (t *deadlineContext) Deadline() (time.Time, bool) {
	if at, ok := t.Context.Deadline(); ok && at.Before(t.at) {
		return at, true
	}
	return t.at, true
}

// Err implements context.Context.
func (t *deadlineContext) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.errLocked()
}

func (t *deadlineContext) errLocked() error {
	if t.err != nil {
		return t.err
	}
	return t.Context.Err()
}

// Done implements context.Context.
func (t *deadlineContext) Done() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.observe()
	return t.done
}

// AfterFunc makes package context cancel derived contexts without a goroutine. A context that adds
// a value in between still requires one.
func (t *deadlineContext) AfterFunc(f func()) (stop func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.observe()
	if t.errLocked() != nil {
		go f()
		return func() bool { return false }
	}
	if t.after == nil {
		t.after = map[*func()]struct{}{}
	}
	t.after[&f] = struct{}{}
	return func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		_, waiting := t.after[&f]
		delete(t.after, &f)
		return waiting
	}
}

// observe notifies waiters of the end. t.mu must be held.
func (t *deadlineContext) observe() {
	if t.done != nil {
		return
	}
	t.done = make(chan struct{})
	if t.errLocked() != nil {
		close(t.done)
		return
	}
	t.unlink = context.AfterFunc(t.Context, func() { t.end(t.Context.Err()) })
}

// end ends the context, unless it has ended. It reports whether it has now.
func (t *deadlineContext) end(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return false
	}
	was := t.Context.Err()
	t.err = cmp.Or(was, err)
	if t.unlink != nil {
		t.unlink()
		close(t.done)
	}
	for f := range t.after {
		go (*f)()
	}
	t.after = nil
	return was == nil
}

// deadlineQueue ends contexts at their deadlines. Almost all requests have the same timeout, so it
// uses one timer, which is not reset for each request.
type deadlineQueue struct {
	mu      sync.Mutex
	waiting list.List // of *deadlineContext, in order of their time
	timer   *time.Timer
	set     bool      // the timer will call expire
	at      time.Time // when it will, which is not after the time of the first
}

// add has t end at its time.
func (q *deadlineQueue) add(t *deadlineContext) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if last := q.waiting.Back(); last != nil && t.at.Before(last.Value.(*deadlineContext).at) { // it has less time than others
		t.timer = time.AfterFunc(time.Until(t.at), t.expire)
		return
	}
	t.place = q.waiting.PushBack(t)
	if !q.set || t.at.Before(q.at) { // it may be set for one that is over
		q.wakeAt(t.at)
	}
}

func (q *deadlineQueue) wakeAt(at time.Time) {
	q.set, q.at = true, at
	if left := time.Until(at); q.timer == nil {
		q.timer = time.AfterFunc(left, q.expire)
	} else {
		q.timer.Reset(left)
	}
}

// remove forgets t, which is over.
func (q *deadlineQueue) remove(t *deadlineContext) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
	if t.place != nil {
		q.waiting.Remove(t.place)
		t.place = nil
	}
}

// expire ends expired contexts, and sets the timer for the next one.
func (q *deadlineQueue) expire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.set = false
	for first := q.waiting.Front(); first != nil; first = q.waiting.Front() {
		t := first.Value.(*deadlineContext)
		if t.at.After(now) {
			q.wakeAt(t.at)
			return
		}
		q.waiting.Remove(first)
		t.place = nil
		go t.expire()
	}
}

func (t *deadlineContext) expire() {
	if t.end(context.DeadlineExceeded) {
		t.expired()
	}
}
