package storage

import (
	"context"
	"iter"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

const (
	// bookmarkPeriod is the maximum time between bookmarks.
	bookmarkPeriod = time.Minute
	// finalBookmark is the time between the last bookmark and the deadline of a watch.
	finalBookmark = 2 * time.Second
	// initialBatch is the maximum number of initial events that one Next returns.
	initialBatch = 100
)

// ChangeStream is a sequence of changes, ordered by revision. It must not be used concurrently.
type ChangeStream interface {
	// Next returns the next changes, with all changes of a commit together. It blocks until there are
	// changes, timer fires, catchUp is closed, or ctx ends. If catchUp is closed, Next returns all changes up
	// to the current revision of the storage; it may block briefly to read them. Both channels may be nil.
	// The result may be empty after timer has fired or catchUp was closed, or if only the progress has
	// changed. The slice is valid until the next call. All changes up to the revision progress have been
	// returned.
	Next(ctx context.Context, timer <-chan time.Time, catchUp <-chan struct{}) (changes []*Change, progress int64, err error)
	// Close releases the stream. Changes that were returned stay valid.
	Close() error
}

// A poller is a ChangeStream that can be read without blocking.
type poller interface {
	// Poll returns the result of Next if it is available without blocking. If nothing is available, Poll
	// returns no changes and later calls wake (see rest.Poller). It returns rest.ErrWouldBlock if reading the
	// next changes requires a blocking Next.
	Poll(ctx context.Context, wake func()) (changes []*Change, progress int64, err error)
}

// cursor is a rest.Watch over a ChangeStream. It returns the initial events, then the events of the
// changes that the selection matches, and bookmarks between them. Watches with and without a cache
// use it. It must not be used concurrently.
type cursor struct {
	*WatchPlan
	stream ChangeStream
	// visible limits the watch to a set of namespaces, which can change; nil means no limit.
	visible *visibleNamespaces

	// nextInitial and stopInitial read the initial events; nil if there are no more initial events.
	nextInitial func() (*codec.Record, error, bool)
	stopInitial func()
	// progress is the revision of the next bookmark, bookmarked the revision of the last one.
	progress, bookmarked int64
	// due is the time of the next bookmark, at which timer fires. timer is nil before the first wait, and
	// timer.C is nil after the first Poll.
	due   time.Time
	timer *time.Timer
	// events is the result of Next. queued contains events that must be returned before more changes are
	// read.
	events, queued []rest.Event
	// initialized is set after the request was notified of the end of the initial events.
	initialized bool
}

var _ rest.Watch = (*cursor)(nil)

// newCursor returns a watch of the changes after the revision from. The caller must set stream, which the
// cursor then owns. initial is the list of the initial objects, or nil.
func newCursor(plan *WatchPlan, initial *rest.List, from int64, visible *visibleNamespaces) *cursor {
	c := &cursor{WatchPlan: plan, visible: visible, progress: from}
	if initial != nil {
		c.nextInitial, c.stopInitial = iter.Pull2(initial.Items)
	}
	if plan.Bookmarks {
		c.due = time.Now().Add(c.untilBookmark())
	}
	return c
}

// untilBookmark returns the time until the next bookmark.
func (c *cursor) untilBookmark() time.Duration {
	// Jitter prevents watches that were opened together from waking at the same time.
	wait := bookmarkPeriod - rand.N(bookmarkPeriod/4)
	if !c.Deadline.IsZero() {
		if left := time.Until(c.Deadline) - finalBookmark; left > 0 {
			wait = min(wait, left)
		}
	}
	return wait
}

// Next implements rest.Watch.
func (c *cursor) Next(ctx context.Context) ([]rest.Event, error) {
	c.clearEvents()
	for len(c.events) == 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var err error
		switch {
		case c.nextInitial != nil:
			err = c.readInitial()
		case len(c.queued) > 0:
			c.dequeue()
		default:
			c.notifyInitialized(ctx)
			err = c.readChanges(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	return c.events, nil
}

// Poll implements rest.Poller.
func (c *cursor) Poll(ctx context.Context, wake func()) ([]rest.Event, error) {
	stream, ok := c.stream.(poller)
	if !ok || c.visible != nil || c.converts {
		return nil, rest.ErrWouldBlock
	}
	c.clearEvents()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.nextInitial != nil {
		if err := c.readInitial(); err != nil || len(c.events) > 0 {
			return c.events, err
		}
	}
	c.notifyInitialized(ctx)
	c.wakeForBookmark(wake)
	for len(c.events) == 0 {
		changes, progress, err := stream.Poll(ctx, wake)
		if err == nil {
			err = c.advance(ctx, changes, progress)
		}
		if err != nil {
			return nil, err
		}
		if len(changes) == 0 {
			break
		}
	}
	return c.events, nil
}

func (c *cursor) clearEvents() {
	clear(c.events)
	c.events = c.events[:0]
}

// notifyInitialized notifies the request, once, that the initial events were sent. Next and Poll call it when
// earlier calls have returned all initial events. Their caller sends events before it reads again, so these
// events were sent.
func (c *cursor) notifyInitialized(ctx context.Context) {
	if !c.initialized {
		c.initialized = true
		request.WatchInitialized(ctx)
	}
}

// readInitial appends the next initial events.
func (c *cursor) readInitial() error {
	for range initialBatch {
		record, err, ok := c.nextInitial()
		if !ok {
			c.endInitial()
			return nil
		}
		if err != nil {
			return err
		}
		c.events = append(c.events, rest.Event{Type: watch.Added, Record: record})
	}
	return nil
}

// endInitial releases the initial list, which retains a snapshot of the cache.
func (c *cursor) endInitial() {
	c.stopInitial()
	c.nextInitial, c.stopInitial = nil, nil
	if c.MarkInitialEnd {
		c.events = append(c.events, rest.Event{Type: watch.Bookmark, Revision: c.progress, InitialEventsEnd: true})
		c.bookmarked = c.progress
	}
}

// readChanges waits for changes or a due bookmark, and appends their events.
func (c *cursor) readChanges(ctx context.Context) error {
	due, stop := c.bookmarkTimer()
	changes, progress, err := c.stream.Next(ctx, due, c.visible.changes())
	stop()
	if err != nil {
		return err
	}
	return c.advance(ctx, changes, progress)
}

// wakeForBookmark makes the timer call wake whenever a bookmark is due, from now on.
func (c *cursor) wakeForBookmark(wake func()) {
	if !c.Bookmarks || c.timer != nil && c.timer.C == nil {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = time.AfterFunc(time.Until(c.due), wake)
}

// bookmarkTimer returns a channel that receives a value when the next bookmark is due, or nil if the watch
// has no bookmarks. The caller must call stop.
func (c *cursor) bookmarkTimer() (due <-chan time.Time, stop func()) {
	nothing := func() {}
	switch {
	case !c.Bookmarks:
		return nil, nothing
	case c.timer == nil:
		c.timer = time.NewTimer(time.Until(c.due))
	case c.timer.C == nil: // the timer calls the wake function of Poll
		t := time.NewTimer(time.Until(c.due))
		return t.C, func() { t.Stop() }
	}
	return c.timer.C, nothing
}

// advance appends the events of changes, and a bookmark if one is due. These and earlier changes include
// all changes up to the revision progress.
func (c *cursor) advance(ctx context.Context, changes []*Change, progress int64) (err error) {
	progress = max(c.progress, progress)
	if c.visible != nil {
		changes, err = c.filterVisible(ctx, changes, progress)
	}
	if err == nil {
		err = c.appendEvents(ctx, changes)
	}
	if err != nil {
		return err
	}
	c.progress = progress
	if c.timer != nil && !time.Now().Before(c.due) {
		c.appendBookmark()
	}
	return nil
}

// appendEvents appends the events of changes that the selection matches.
func (c *cursor) appendEvents(ctx context.Context, changes []*Change) error {
	if err := c.convertForSelectors(ctx, changes); err != nil {
		return err
	}
	for _, change := range changes {
		ev, ok, err := c.Event(change)
		if err != nil {
			return err
		}
		if ok {
			c.events = append(c.events, ev)
		}
	}
	return convertEvents(ctx, c.events)
}

// appendBookmark appends a bookmark if there was progress since the last one.
func (c *cursor) appendBookmark() {
	wait := c.untilBookmark()
	c.due = time.Now().Add(wait)
	c.timer.Reset(wait)
	if c.progress > c.bookmarked {
		c.bookmarked = c.progress
		c.events = append(c.events, rest.Event{Type: watch.Bookmark, Revision: c.progress})
	}
}

// Close implements rest.Watch.
func (c *cursor) Close() error {
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.stopInitial != nil {
		c.stopInitial()
	}
	return c.stream.Close()
}
