package history

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// Watch implements rest.Watcher. If the options have no resourceVersion, the watch begins with the next change. If until
// selects a moment in the past, the watch has no events for later changes.
func (s *Storage) Watch(ctx context.Context, namespace string, options rest.ListOptions) (rest.Watch, error) {
	sel, err := s.selection(ctx, namespace, options)
	if err != nil {
		return nil, err
	}
	sel.key = "" // a watch reads the changes of all keys in order
	sel.from = max(sel.from, cmp.Or(sel.requested, sel.newest)+1)
	if missing := s.missing(sel, sel.from); missing != nil {
		return nil, expired("watch", missing)
	}
	w := &changeWatch{storage: s, selection: sel, bookmarks: options.AllowBookmarks, known: sel.from - 1, due: time.Now().Add(bookmarkPeriod)}
	if sel.to < sel.newest {
		w.until = sel.to
	}
	return w, nil
}

const (
	// watchBatch is the maximum number of changes that one call of Next returns.
	watchBatch = 100
	// bookmarkPeriod is the time between two bookmarks. It is short compared with the retention of most resources,
	// so that a client without events can resume its watch.
	bookmarkPeriod = time.Minute
)

// changeWatch implements rest.Watch. Its events have the type ADDED, and BOOKMARK if the client accepts bookmarks.
type changeWatch struct {
	storage   *Storage
	selection *changeSelection
	until     kv.Revision // the last selected revision, or 0

	bookmarks bool
	due       time.Time   // of the next bookmark
	known     kv.Revision // from which the client can resume
}

// Next implements rest.Watch.
func (w *changeWatch) Next(ctx context.Context) ([]rest.Event, error) {
	for {
		if err := w.await(ctx); err != nil {
			return nil, err
		}
		events, err := w.read(ctx)
		if err == nil && events == nil {
			events = w.bookmark()
		}
		if err != nil || events != nil {
			return events, err
		}
	}
}

// await waits until the history has the next revision, or a bookmark is due.
func (w *changeWatch) await(ctx context.Context) error {
	limited, cancel := ctx, func() {}
	if w.bookmarks {
		limited, cancel = context.WithDeadline(ctx, w.due)
	}
	defer cancel()
	err := w.storage.config.Archive.Await(limited, w.selection.from)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// read returns the events of the next changes, or nil if no new change is selected.
func (w *changeWatch) read(ctx context.Context) ([]rest.Event, error) {
	sel := w.selection
	sel.to = w.storage.config.Archive.Position()
	if w.until != 0 {
		if sel.from > w.until { // no further change is selected
			<-ctx.Done()
			return nil, ctx.Err()
		}
		sel.to = min(sel.to, w.until)
	}
	found, more, err := w.storage.read(ctx, sel, watchBatch)
	if err != nil {
		return nil, err
	}
	if missing := w.storage.missing(sel, sel.from); missing != nil {
		return nil, expired("watch", missing)
	}
	if more {
		sel.from, sel.after = sel.last.revision, sel.last
	} else {
		sel.from = max(sel.from, sel.to+1)
	}
	var events []rest.Event
	for _, record := range found {
		events = append(events, rest.Event{Type: watch.Added, Record: record})
		w.known = kv.Revision(record.Revision())
	}
	return events, nil
}

// bookmark returns a bookmark if one is due and there was progress since the last event.
func (w *changeWatch) bookmark() []rest.Event {
	now := time.Now()
	if !w.bookmarks || now.Before(w.due) {
		return nil
	}
	w.due = now.Add(bookmarkPeriod)
	if at := w.selection.from - 1; at > w.known {
		w.known = at
		return []rest.Event{{Type: watch.Bookmark, Revision: int64(at)}}
	}
	return nil
}

// Close implements rest.Watch.
func (w *changeWatch) Close() error { return nil }
