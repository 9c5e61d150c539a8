package fanout

import (
	"context"
	"strings"
	"sync"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

const (
	// maxQueue is the maximum number of batches that wait for a receiver. If the queue is full, the receiver
	// gets the following events from the history of the backend.
	maxQueue = 256
	// minCatchUpDelay is the delay before a watch without events requests the progress that it needs to
	// become live. The delay doubles with each request, up to maxCatchUpDelay.
	minCatchUpDelay = 5 * time.Millisecond
	maxCatchUpDelay = time.Second
)

// watch is a watch of a Backend. It has a goroutine only while its receiver is slow, or while it catches up.
type watch struct {
	hub        *Backend
	start, end string
	isPrefix   bool // the range consists of all keys with the prefix start, which ends with a slash
	ctx        context.Context
	cancel     context.CancelFunc
	batches    chan kv.Batch

	// pending are the events of the batch that is being dispatched. The lock of the hub guards it.
	pending []kv.Event
	// next is the first revision that was not delivered. mu guards it while the watch is live; otherwise, it
	// belongs to the goroutine of the watch.
	next kv.Revision

	mu sync.Mutex
	// queue contains the batches that wait for the receiver, and sending is set while a goroutine sends
	// them.
	queue   []kv.Batch
	sending bool
	// sent is the revision of the last batch that was sent to batches.
	sent kv.Revision
	// overflow is set if batches were dropped because the queue was full.
	overflow bool
	ended    bool
	err      error
	// notify is called after each send to batches; nil before Notify.
	notify func()
}

func newWatch(ctx context.Context, hub *Backend, start, end string, from kv.Revision) *watch {
	w := &watch{
		hub: hub, start: start, end: end, next: from, batches: make(chan kv.Batch, 1),
		isPrefix: strings.HasSuffix(start, "/") && end == kv.PrefixEnd(start),
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

func (w *watch) contains(key string) bool { return key >= w.start && (w.end == "" || key < w.end) }

// Batches implements kv.Watch.
func (w *watch) Batches() <-chan kv.Batch { return w.batches }

// Err implements kv.Watch.
func (w *watch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Notify implements kv.Notifier.
func (w *watch) Notify(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notify = f
}

func (w *watch) announceLocked() {
	if w.notify != nil {
		w.notify()
	}
}

func (w *watch) closeLocked() {
	close(w.batches)
	w.announceLocked()
}

// Stop implements kv.Watch.
func (w *watch) Stop() { w.cancel() }

// deliver passes a batch to the receiver, or to the queue if the receiver is not ready. It does not block.
// The caller holds the lock of the hub.
func (w *watch) deliver(b kv.Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(b.Events) > 0 && b.Events[0].Revision < w.next {
		b.Events = b.Events[1:]
	}
	if w.ended || w.overflow || len(b.Events) == 0 && b.Revision < w.next-1 {
		return
	}
	w.next = max(w.next, b.Revision+1)
	switch {
	case w.sending && len(w.queue) >= maxQueue:
		w.overflow = true
	case w.sending:
		w.queue = append(w.queue, b)
	default:
		select {
		case w.batches <- b:
			w.sent = b.Revision
			w.announceLocked()
		default:
			w.queue, w.sending = append(w.queue, b), true
			go w.send() // ends when the queue is empty, or with ctx
		}
	}
}

// send sends the batches of the queue. After an overflow, it then reads the dropped events from the backend.
func (w *watch) send() {
	for {
		b, more := w.take()
		if !more {
			return
		}
		if b == nil {
			w.reread()
			return
		}
		select {
		case w.batches <- *b:
			w.mu.Lock()
			w.sent = b.Revision
			w.announceLocked()
			w.mu.Unlock()
		case <-w.ctx.Done():
			w.exit(nil)
			return
		}
	}
}

// take removes the first batch of the queue and returns it. If more is true and b is nil, the next events
// were dropped. If more is false, there is nothing to send, and the goroutine must end.
func (w *watch) take() (b *kv.Batch, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended:
		w.closeLocked()
		return nil, false
	case len(w.queue) > 0:
		first := w.queue[0]
		w.queue[0] = kv.Batch{}
		w.queue = w.queue[1:]
		return &first, true
	case w.overflow:
		return nil, true
	}
	w.queue, w.sending = nil, false
	return nil, false
}

// reread continues a watch after the last batch that was sent, with events from the history of the backend.
func (w *watch) reread() {
	w.hub.leave(w)
	w.mu.Lock()
	w.overflow, w.next = false, w.sent+1
	w.mu.Unlock()
	own, err := w.hub.Backend.Watch(w.ctx, w.start, w.end, w.next)
	if err != nil {
		w.exit(err)
		return
	}
	w.catchUp(own)
}

// catchUp forwards the batches of own, a separate watch of the backend, until the watch can become live.
func (w *watch) catchUp(own kv.Watch) {
	defer own.Stop()
	delay := minCatchUpDelay
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		select {
		case b, ok := <-own.Batches():
			if !ok {
				w.exit(own.Err())
				return
			}
			select {
			case w.batches <- b:
			case <-w.ctx.Done():
				w.exit(nil)
				return
			}
			w.mu.Lock()
			w.sent, w.next = b.Revision, max(w.next, b.Revision+1)
			w.announceLocked()
			w.mu.Unlock()
		case <-timer.C:
			// Without events in the range, only progress shows that nothing was missed.
			_ = w.hub.Backend.RequestProgress(w.ctx) // own reports a permanent error
			delay = min(2*delay, maxCatchUpDelay)
			timer.Reset(delay)
			continue
		case <-w.ctx.Done():
			w.exit(nil)
			return
		}
		if w.hub.join(w) {
			w.send()
			return
		}
	}
}

// exit ends the watch and closes its channel. Only the goroutine of the watch may call it.
func (w *watch) exit(err error) {
	w.finish(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closeLocked()
}

// finish ends the watch. err is nil if Stop or the context ended it. If the watch has a goroutine, that
// goroutine closes the channel.
func (w *watch) finish(err error) {
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		return
	}
	if w.ctx.Err() != nil {
		err = nil
	}
	w.ended, w.err, w.queue = true, err, nil
	if !w.sending {
		w.closeLocked()
	}
	w.mu.Unlock()
	w.cancel()
	w.hub.leave(w)
}
