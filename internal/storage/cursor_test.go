package storage

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// quiet is a ChangeStream without matching changes, whose progress increases.
type quiet struct{ progress int64 }

func (q *quiet) Next(ctx context.Context, timer <-chan time.Time, _ <-chan struct{}) ([]*Change, int64, error) {
	select {
	case <-time.After(10 * time.Second):
	case <-timer:
	case <-ctx.Done():
		return nil, q.progress, ctx.Err()
	}
	q.progress++
	return nil, q.progress, nil
}

func (q *quiet) Close() error { return nil }

func quietCursor(plan *WatchPlan) *cursor {
	c := newCursor(plan, nil, 100, nil)
	c.stream = &quiet{progress: 100}
	return c
}

func TestBookmarks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		const life = 5*time.Minute + 10*time.Second
		ctx, cancel := context.WithTimeout(t.Context(), life)
		defer cancel()
		deadline, _ := ctx.Deadline()
		c := quietCursor(&WatchPlan{Bookmarks: true, Deadline: deadline})
		defer c.Close()
		var last time.Duration
		var revision int64
		for {
			events, err := c.Next(ctx)
			if err != nil {
				break
			}
			if len(events) != 1 || events[0].Type != watch.Bookmark || events[0].Revision <= revision {
				t.Fatalf("events %+v after a bookmark at %d", events, revision)
			}
			revision = events[0].Revision
			now := time.Since(start)
			if wait := now - last; wait > bookmarkPeriod || wait < bookmarkPeriod/2 && now != life-finalBookmark {
				t.Errorf("a bookmark %v after the last, at %v", wait, now)
			}
			last = now
		}
		if last != life-finalBookmark {
			t.Errorf("the last bookmark came after %v, want %v", last, life-finalBookmark)
		}
	})
}

func TestNoBookmarksByDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		c := quietCursor(&WatchPlan{})
		defer c.Close()
		if events, err := c.Next(ctx); err == nil {
			t.Errorf("got %+v", events)
		}
	})
}
