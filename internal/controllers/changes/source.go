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
	// revision is the revision up to which the feed has received changes.
	revision kv.Revision
	release  func()
	// reported is the revision up to which the feed has reported changes to the subscribers.
	reported atomic.Int64
}

// pinSources returns a source for each backend, at the backend's current revision. These revisions are
// protected from compaction until release is called.
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

// sourceBatch is a batch of changes and the source that delivered it.
type sourceBatch struct {
	*source
	kv.Batch
}

// watchAll reports the changes of all sources until one of them fails. The changes of each source stay in
// order. Subscribers are called only from the calling goroutine.
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
