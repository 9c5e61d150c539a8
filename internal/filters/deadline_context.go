package filters

import (
	"cmp"
	"container/list"
	"context"
	"sync"
	"time"
)

// deadlineContext is the context of a request that is to be answered in time. It ends at its time, with
// the context it is made from, or when the request is over. context.WithDeadline does the
// same with a timer and an entry in its parent for each request, few of which are ever asked
// whether they have ended. Of one that has ended by itself, context.Cause finds what its
// parent ended for, if that ended after it.
type deadlineContext struct {
	context.Context // of the request, without the time

	at      time.Time
	expired func() // called by a goroutine of its own at the time, unless it has ended

	mu     sync.Mutex
	err    error         // why it has ended, if not with its parent
	done   chan struct{} // nil until somebody asks for it
	after  map[*func()]struct{}
	unlink func() bool // from the parent; nil while done is, and if that ended first

	// Guarded by the queue's lock.
	place *list.Element
	timer *time.Timer // for what is not queued
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

// AfterFunc is what package context asks for to have contexts below t end without a goroutine
// that waits. Below one that adds a value to t, it still starts one.
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

// observe has the end be seen by those who wait for it. t.mu is held.
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

// deadlineQueue has contexts end at their time. Almost all requests may take equally long: it
// has one timer for them all, which is not set anew for each.
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

// expire ends those whose time it is, and sets the timer for the next.
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
