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
	// bookmarkPeriod is the longest time between bookmarks.
	bookmarkPeriod = time.Minute
	// lastBookmark is how long before its deadline a watch gets a last one.
	lastBookmark = 2 * time.Second
	// initialBatch is how many initial events one Next returns.
	initialBatch = 100
)

// Source is where a Cursor reads changes. It must not be used concurrently.
type Source interface {
	// Next returns the next changes in order of revision, with all changes of a commit together. It
	// blocks until there are changes, wake fires, or ctx ends. The result may be empty after wake
	// or if only the progress changed. The slice is valid until the next call. All changes up to
	// the revision progress have been returned. If changed is closed, Next returns the available
	// changes, possibly after a moment; it may be nil.
	Next(ctx context.Context, wake <-chan time.Time, changed <-chan struct{}) (changes []*Change, progress int64, err error)
	Close() error
}

// A pollable is a Source that can be read without waiting.
type pollable interface {
	// Poll returns the result of Next if it is available without blocking. Otherwise there are no
	// changes, and wake is called as specified by rest.Poller. The error may be rest.ErrWouldBlock.
	Poll(wake func()) (changes []*Change, progress int64, err error)
}

// CursorConfig describes a Cursor.
type CursorConfig struct {
	Selection
	Source Source
	// Initial, if not nil, is the list whose items are sent first, as ADDED. Source delivers the
	// changes after its Revision.
	Initial *rest.List
	// From is the revision after which changes are reported.
	From int64
	// MarkInitialEnd adds a bookmark after the initial items.
	MarkInitialEnd bool
	// Bookmarks adds bookmarks, about once a minute.
	Bookmarks bool
	// Deadline, where not zero, is when the watch will be ended.
	Deadline time.Time
	// converts: events may wait for a conversion.
	converts bool
	// view, where not nil, limits the watch to some namespaces, which change.
	view *view
}

// Cursor is a rest.Watch over a Source: first the initial events, then the
// changes that the selection makes into events, and bookmarks between them. It
// is the common part of cached and uncached watches. It must not be used concurrently.
type Cursor struct {
	CursorConfig
	nextInitial func() (*codec.Record, error, bool)
	stopInitial func()
	// progress is the revision of the next bookmark, bookmarked that of the last.
	progress, bookmarked int64
	// timer fires when a bookmark is due, which is at due. It is nil without
	// bookmarks, and has no channel once the cursor is polled.
	timer *time.Timer
	due   time.Time
	out   []rest.Event
	// queued are events that go out before any others.
	queued []rest.Event
	// reported: the request was notified that the initial events were sent.
	reported bool
}

var _ rest.Watch = (*Cursor)(nil)

// NewCursor returns a watch, which owns the Source.
func NewCursor(cfg CursorConfig) *Cursor {
	c := &Cursor{CursorConfig: cfg, progress: cfg.From}
	if cfg.Initial != nil {
		c.nextInitial, c.stopInitial = iter.Pull2(cfg.Initial.Items)
		c.progress = cfg.Initial.Revision
	}
	if cfg.Bookmarks {
		c.due = time.Now().Add(c.untilBookmark())
	}
	return c
}

// untilBookmark returns how long to wait for the next bookmark.
func (c *Cursor) untilBookmark() time.Duration {
	// With jitter, so that watches opened together do not wake together.
	wait := bookmarkPeriod - rand.N(bookmarkPeriod/4)
	if !c.Deadline.IsZero() {
		if left := time.Until(c.Deadline) - lastBookmark; left > 0 {
			wait = min(wait, left)
		}
	}
	return wait
}

// Next implements rest.Watch.
func (c *Cursor) Next(ctx context.Context) ([]rest.Event, error) {
	clear(c.out)
	c.out = c.out[:0]
	for len(c.out) == 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var err error
		switch {
		case c.nextInitial != nil:
			err = c.initial()
		case len(c.queued) > 0:
			c.dequeue()
		default:
			c.initialized(ctx)
			err = c.changes(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	return c.out, nil
}

// Poll implements rest.Poller.
func (c *Cursor) Poll(ctx context.Context, wake func()) ([]rest.Event, error) {
	source, ok := c.Source.(pollable)
	if !ok || c.view != nil || c.converts {
		return nil, rest.ErrWouldBlock
	}
	clear(c.out)
	c.out = c.out[:0]
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.nextInitial != nil {
		if err := c.initial(); err != nil || len(c.out) > 0 {
			return c.out, err
		}
	}
	c.initialized(ctx)
	c.wakeForBookmark(wake)
	for len(c.out) == 0 {
		changes, progress, err := source.Poll(wake)
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
	return c.out, nil
}

// initialized notifies the request once that the initial events were sent. It is called when the
// next ones are requested.
func (c *Cursor) initialized(ctx context.Context) {
	if !c.reported {
		c.reported = true
		request.WatchInitialized(ctx)
	}
}

// initial adds the next initial events.
func (c *Cursor) initial() error {
	for range initialBatch {
		record, err, ok := c.nextInitial()
		if !ok {
			c.endInitial()
			return nil
		}
		if err != nil {
			return err
		}
		c.out = append(c.out, rest.Event{Type: watch.Added, Record: record})
	}
	return nil
}

func (c *Cursor) endInitial() {
	c.stopInitial()
	// The list retains a snapshot of the cache, which the watch must release.
	c.nextInitial, c.stopInitial, c.Initial = nil, nil, nil
	if c.MarkInitialEnd {
		c.out = append(c.out, rest.Event{Type: watch.Bookmark, Revision: c.progress, InitialEventsEnd: true})
		c.bookmarked = c.progress
	}
}

// changes adds the events of the next changes, and a bookmark when one is due.
func (c *Cursor) changes(ctx context.Context) error {
	wake, stop := c.bookmarkDue()
	changes, progress, err := c.Source.Next(ctx, wake, c.view.changed())
	stop()
	if err != nil {
		return err
	}
	return c.advance(ctx, changes, progress)
}

// wakeForBookmark has wake called when the next bookmark is due, and after each at the next.
func (c *Cursor) wakeForBookmark(wake func()) {
	if !c.Bookmarks || c.timer != nil && c.timer.C == nil {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = time.AfterFunc(time.Until(c.due), wake)
}

// bookmarkDue returns a channel for the time of the next bookmark, until stop is called.
func (c *Cursor) bookmarkDue() (due <-chan time.Time, stop func()) {
	keep := func() {}
	switch {
	case !c.Bookmarks:
		return nil, keep
	case c.timer == nil:
		c.timer = time.NewTimer(time.Until(c.due))
	case c.timer.C == nil:
		t := time.NewTimer(time.Until(c.due))
		return t.C, func() { t.Stop() }
	}
	return c.timer.C, keep
}

// advance adds the events of changes, which are all up to the revision progress, and a bookmark when one is due.
func (c *Cursor) advance(ctx context.Context, changes []*Change, progress int64) (err error) {
	progress = max(c.progress, progress)
	if c.view != nil {
		changes, err = c.visible(ctx, changes, progress)
	}
	if err == nil {
		err = c.events(ctx, changes)
	}
	if err != nil {
		return err
	}
	c.progress = progress
	if c.timer != nil && !time.Now().Before(c.due) {
		c.bookmark()
	}
	return nil
}

// events adds the events of changes.
func (c *Cursor) events(ctx context.Context, changes []*Change) error {
	if err := c.readable(ctx, changes); err != nil {
		return err
	}
	for _, change := range changes {
		ev, ok, err := c.Event(change)
		if err != nil {
			return err
		}
		if ok {
			c.out = append(c.out, ev)
		}
	}
	return convertEvents(ctx, c.out)
}

// bookmark adds a bookmark, if there was progress since the last.
func (c *Cursor) bookmark() {
	wait := c.untilBookmark()
	c.due = time.Now().Add(wait)
	c.timer.Reset(wait)
	if c.progress > c.bookmarked {
		c.bookmarked = c.progress
		c.out = append(c.out, rest.Event{Type: watch.Bookmark, Revision: c.progress})
	}
}

// Close implements rest.Watch.
func (c *Cursor) Close() error {
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.stopInitial != nil {
		c.stopInitial()
	}
	return c.Source.Close()
}
