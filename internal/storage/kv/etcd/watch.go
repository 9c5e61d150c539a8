package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Limits of a watch's queue. Above them, the etcd watch is closed; it is reopened from history when
// the receiver has emptied the queue.
const (
	maxQueuedBytes  = 16 << 20
	maxQueuedEvents = 10_000
	// batchEvents is the approximate maximum number of events that are merged into a batch.
	batchEvents = 1000
)

// progressPause is the delay before progress is requested again. etcd does not report progress
// while a watch reads history.
const progressPause = 50 * time.Millisecond

// reopenPause is the time between two attempts to reopen a source.
const reopenPause = 200 * time.Millisecond

// watch is a kv.Watch: a queue in front of a source.
type watch struct {
	s          *Store
	ctx        context.Context
	cancel     context.CancelFunc
	start, end string
	batches    chan kv.Batch
	err        error // set before batches is closed

	// progressRequests contains the revision of the newest progress request that run has not received yet.
	progressRequests chan kv.Revision

	// The following fields are used by run only.
	source *source // nil while the queue must drain first, or etcd is unavailable
	// failed is set if etcd has closed the last source or has not opened it.
	failed bool
	queue  queue
	// next is the first revision whose events were not added to the queue yet.
	next kv.Revision
	// seen is the newest revision whose progress was added to the queue.
	seen kv.Revision
	// requested is the revision of the newest progress request.
	requested kv.Revision
}

// errEnded ends run without an error, because the receiver has stopped the watch.
var errEnded = errors.New("watch ended")

// Watch implements kv.Backend.
func (s *Store) Watch(ctx context.Context, start, end string, from kv.Revision) (kv.Watch, error) {
	if from < 0 {
		return nil, fmt.Errorf("watch: revision %d is negative", from)
	}
	if from == 0 {
		newest, err := s.newest(ctx)
		if err != nil {
			return nil, fmt.Errorf("watch [%q, %q): %w", start, end, err)
		}
		from = newest + 1
	}
	entered, leave, err := s.beginCall(ctx, false)
	if err != nil {
		return nil, err
	}
	w := &watch{
		s: s, start: start, end: end, next: from,
		batches: make(chan kv.Batch), progressRequests: make(chan kv.Revision, 1),
	}
	w.ctx, w.cancel = context.WithCancel(entered)
	if w.source, err = w.open(); err != nil {
		w.cancel()
		leave()
		return nil, fmt.Errorf("watch [%q, %q) from revision %d: %w", start, end, from, err)
	}
	s.mu.Lock()
	s.mu.watches[w] = struct{}{}
	s.mu.Unlock()
	go func() { // ends with ctx, Stop or Close, which waits for it; see beginCall
		defer leave()
		w.run()
	}()
	return w, nil
}

func (w *watch) Batches() <-chan kv.Batch { return w.batches }
func (w *watch) Err() error               { return w.err }

// Stop implements kv.Watch.
func (w *watch) Stop() { w.cancel() }

// run moves batches from the source to the receiver until the watch ends.
func (w *watch) run() {
	err := w.step()
	for err == nil {
		err = w.step()
	}
	if w.ctx.Err() != nil {
		err = errEnded
	}
	w.detach()
	w.cancel()
	w.s.mu.Lock()
	delete(w.s.mu.watches, w)
	w.s.mu.Unlock()
	switch {
	case w.s.ctx.Err() != nil:
		w.err = fmt.Errorf("watch [%q, %q): %w", w.start, w.end, kv.ErrClosed)
	case !errors.Is(err, errEnded):
		w.err = fmt.Errorf("watch [%q, %q): %w", w.start, w.end, err)
	}
	close(w.batches)
}

func (w *watch) step() error {
	if w.source == nil && w.queue.empty() {
		if err := w.reopen(); err != nil || w.source == nil {
			return err
		}
	}
	var answers <-chan watchMessage
	if w.source != nil {
		answers = w.source.messages
	}
	var out chan<- kv.Batch
	if !w.queue.empty() {
		out = w.batches
	}
	var again <-chan time.Time
	if w.source != nil && w.requested > w.seen {
		again = time.After(progressPause)
	}
	select {
	case a, ok := <-answers:
		if !ok || errors.Is(a.err, kv.ErrUnavailable) {
			w.detach() // etcd's client closed the watch, for example because there is no leader
			w.failed = true
			return nil
		}
		return w.enqueue(a)
	case out <- w.queue.first():
		w.queue.drop()
	case want := <-w.progressRequests:
		w.deliverProgress(want)
	case <-again:
		w.source.requestProgress()
	case <-w.ctx.Done():
		return errEnded
	}
	return nil
}

// enqueue adds a message of etcd to the queue.
func (w *watch) enqueue(a watchMessage) error {
	if w.ctx.Err() != nil {
		return errEnded
	}
	if a.err != nil {
		return a.err
	}
	events := a.events
	for len(events) > 0 && events[0].Revision < w.next {
		events = events[1:] // a reopened watch may send events again
	}
	revision := a.revision
	if revision <= w.seen && len(events) == 0 {
		return nil
	}
	w.queue.add(kv.Batch{Events: events, Revision: revision})
	w.seen = revision
	w.next = max(w.next, revision+1)
	if w.queue.full() {
		w.detach()
	}
	return nil
}

// detach closes the source. reopen opens a new one when the queue is empty.
func (w *watch) detach() {
	if w.source != nil {
		w.source.close()
		w.source = nil
	}
}

// reopen starts a new source at the revision where the last source ended. If etcd is unavailable, the watch
// remains without a source and the caller must retry. A member without a leader opens a source and closes it
// immediately, so reopen pauses after both kinds of failure.
func (w *watch) reopen() (err error) {
	if w.failed {
		select {
		case <-time.After(reopenPause):
		case <-w.ctx.Done():
			return errEnded
		}
	}
	w.source, err = w.open()
	w.failed = err != nil
	switch {
	case err == nil:
		w.deliverProgress(w.requested)
	case !errors.Is(err, kv.ErrUnavailable):
		return err
	}
	return nil
}

// deliverProgress makes the watch report to the receiver that all events up to a revision were delivered.
// Usually, it requests the progress from etcd. If the watch starts after the revision, it reports the
// progress itself, because etcd sends no progress for watches from a future revision.
func (w *watch) deliverProgress(want kv.Revision) {
	w.requested = max(w.requested, want)
	switch {
	case w.requested <= w.seen:
	case w.requested < w.next:
		w.queue.add(kv.Batch{Revision: w.requested})
		w.seen = w.requested
	case w.source != nil:
		w.source.requestProgress()
	}
}

// requestProgress makes the watch deliver progress up to a revision. It does not block.
func (w *watch) requestProgress(revision kv.Revision) {
	for {
		select {
		case w.progressRequests <- revision:
			return
		case older := <-w.progressRequests:
			revision = max(revision, older)
		}
	}
}

// RequestProgress implements kv.Backend.
func (s *Store) RequestProgress(ctx context.Context) error {
	newest, err := s.newest(ctx)
	if err != nil {
		return fmt.Errorf("request progress: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.mu.watches {
		w.requestProgress(newest)
	}
	return nil
}

// queue contains the batches that the receiver has not received yet.
type queue struct {
	batches       []kv.Batch
	events, bytes int
}

func (q *queue) empty() bool { return len(q.batches) == 0 }
func (q *queue) full() bool  { return q.events >= maxQueuedEvents || q.bytes >= maxQueuedBytes }

// first returns the oldest batch, or an empty batch if there is none.
func (q *queue) first() kv.Batch {
	if q.empty() {
		return kv.Batch{}
	}
	return q.batches[0]
}

// add appends a batch. It merges the batch into the last queued batch if the result is small enough, which is
// possible because the receiver has not received the last queued batch yet.
func (q *queue) add(b kv.Batch) {
	q.events += len(b.Events)
	q.bytes += size(b)
	if n := len(q.batches); n > 0 && len(q.batches[n-1].Events)+len(b.Events) <= batchEvents {
		last := &q.batches[n-1]
		last.Events = append(last.Events, b.Events...)
		last.Revision = b.Revision
		return
	}
	q.batches = append(q.batches, b)
}

func (q *queue) drop() {
	b := q.batches[0]
	q.events -= len(b.Events)
	q.bytes -= size(b)
	q.batches[0] = kv.Batch{}
	q.batches = q.batches[1:]
}

func size(b kv.Batch) int {
	n := 0
	for i := range b.Events {
		ev := &b.Events[i]
		n += len(ev.Key) + len(ev.Value)
		if ev.Prev != nil {
			n += len(ev.Prev.Value)
		}
	}
	return n
}
