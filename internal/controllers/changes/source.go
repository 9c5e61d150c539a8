package changes

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// source is a backend that the feed follows.
type source struct {
	backend kv.Backend
	// revision is the revision up to which changes were received.
	revision kv.Revision
	release  func()
	// reported is the revision up to which changes were reported to the subscribers.
	reported atomic.Int64
}

// pinSources returns a source for each backend, at its current revision. The revision is protected
// from compaction until release is called.
func (f *Feed) pinSources(ctx context.Context) ([]*source, error) {
	sources := make([]*source, len(f.backends))
	for i, backend := range f.backends {
		revision, free, err := backend.Hold(ctx, 0)
		if err != nil {
			release(sources[:i])
			return nil, fmt.Errorf("hold the current revision: %w", err)
		}
		sources[i] = &source{backend: backend, revision: revision, release: free}
		sources[i].reported.Store(int64(revision))
	}
	return sources, nil
}

func release(sources []*source) {
	for _, s := range sources {
		s.release()
	}
}

// backendOf returns the backend that stores the objects of a path.
func (f *Feed) backendOf(path string) kv.Backend {
	if backend, ok := f.config.Overrides[path]; ok {
		return backend
	}
	return f.config.Backend
}

// sourceBatch is a batch of changes with its source.
type sourceBatch struct {
	*source
	kv.Batch
}

// watchAll reports the changes of all sources until one of them fails. The changes of each source
// remain in order. Only the calling goroutine calls subscribers.
func (f *Feed) watchAll(ctx context.Context, sources []*source) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	group, groupCtx := errgroup.WithContext(ctx)
	batches := make(chan sourceBatch)
	for _, s := range sources {
		group.Go(func() error {
			return f.watchSource(groupCtx, s, func(ctx context.Context, s *source, batch kv.Batch) {
				select {
				case batches <- sourceBatch{s, batch}:
				case <-ctx.Done():
				}
			})
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- group.Wait() }() // the first failure cancels the other watches
	for {
		select {
		case b := <-batches:
			f.dispatchBatch(ctx, b.source, b.Batch)
		case err := <-ended:
			return err
		}
	}
}
