package history

import (
	"cmp"
	"context"

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
	w := &changeWatch{storage: s, selection: sel}
	if sel.to < sel.newest {
		w.until = sel.to
	}
	return w, nil
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
		if missing := w.storage.missing(sel, sel.from); missing != nil {
			return nil, expired("watch", missing)
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
