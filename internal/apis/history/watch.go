package history

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
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
	start := cmp.Or(sel.requested, sel.newest) + 1
	if err := s.checkStart(start); err != nil {
		return nil, err
	}
	sel.from = max(sel.from, start)
	w := &changeWatch{storage: s, selection: sel}
	if sel.to < sel.newest {
		w.until = sel.to
	}
	return w, nil
}

// checkStart returns an error if the changes from the start of a watch on are not complete in the history. It has the state at
// its oldest revision, and all changes after it.
func (s *Storage) checkStart(from kv.Revision) error {
	if oldest, _ := s.config.Archive.Oldest(); from <= oldest {
		return &storage.ExpiredError{Message: fmt.Sprintf("the watch continues after revision %d, and the oldest revision of the history is %d", from-1, oldest)}
	}
	return nil
}

// watchBatch is the maximum number of changes that one call of Next returns.
const watchBatch = 100

// changeWatch implements rest.Watch. Its events have the type ADDED.
type changeWatch struct {
	storage   *Storage
	selection *changeSelection
	until     kv.Revision // the last selected revision, or 0
}

// Next implements rest.Watch.
func (w *changeWatch) Next(ctx context.Context) ([]rest.Event, error) {
	history, sel := w.storage.config.Archive, w.selection
	for {
		if err := history.Await(ctx, sel.from); err != nil {
			return nil, err
		}
		if err := w.storage.checkStart(sel.from); err != nil {
			return nil, err
		}
		sel.to = history.Position()
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
		if more {
			sel.from, sel.after = sel.last.revision, sel.last
		} else {
			sel.from = sel.to + 1
		}
		var events []rest.Event
		for _, record := range found {
			events = append(events, rest.Event{Type: watch.Added, Record: record})
		}
		if events != nil {
			return events, nil
		}
	}
}

// Close implements rest.Watch.
func (w *changeWatch) Close() error { return nil }
