package history

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/rest"
)

// Watch implements rest.Watcher. If the options have no resourceVersion, the watch begins with the next change.
func (s *Storage) Watch(ctx context.Context, namespace string, options rest.ListOptions) (rest.Watch, error) {
	sel, err := s.selection(ctx, namespace, options)
	if err != nil {
		return nil, err
	}
	sel.keys = nil // a watch reads the changes of all keys in order
	sel.from = cmp.Or(sel.requested, sel.newest) + 1
	return &changeWatch{storage: s, selection: sel}, nil
}

// watchBatch is the maximum number of changes that one call of Next returns.
const watchBatch = 100

// changeWatch implements rest.Watch. Its events have the type ADDED.
type changeWatch struct {
	storage   *Storage
	selection *changeSelection
}

// Next implements rest.Watch.
func (w *changeWatch) Next(ctx context.Context) ([]rest.Event, error) {
	history, sel := w.storage.config.Archive, w.selection
	for {
		if err := history.Await(ctx, sel.from); err != nil {
			return nil, err
		}
		sel.to = history.Position()
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
