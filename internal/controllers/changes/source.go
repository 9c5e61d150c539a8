package changes

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// source is one backend while the feed follows it.
type source struct {
	backend kv.Backend
	// revision is up to where it was passed on.
	revision kv.Revision
	release  func()
}

// hold returns all sources, at revisions that stay readable until they are released.
func (f *Feed) hold(ctx context.Context) ([]*source, error) {
	sources := make([]*source, len(f.backends))
	for i, backend := range f.backends {
		revision, free, err := backend.Hold(ctx, 0)
		if err != nil {
			release(sources[:i])
			return nil, fmt.Errorf("hold the current revision: %w", err)
		}
		sources[i] = &source{backend, revision, free}
	}
	return sources, nil
}

func release(sources []*source) {
	for _, s := range sources {
		s.release()
	}
}

// keeps returns the backend of a path.
func (f *Feed) keeps(path string) kv.Backend {
	if backend, ok := f.config.Overrides[path]; ok {
		return backend
	}
	return f.config.Backend
}

// fromSource is a batch of one of several sources.
type fromSource struct {
	*source
	kv.Batch
}

// watchAll reports the changes of all sources, in the order of each, until one of them fails. Only
// the calling goroutine calls subscribers.
func (f *Feed) watchAll(ctx context.Context, sources []*source) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	group, groupCtx := errgroup.WithContext(ctx)
	batches := make(chan fromSource)
	for _, s := range sources {
		group.Go(func() error {
			return f.watchOn(groupCtx, s, func(ctx context.Context, s *source, batch kv.Batch) {
				select {
				case batches <- fromSource{s, batch}:
				case <-ctx.Done():
				}
			})
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- group.Wait() }() // after the first failure, which ends the others
	for {
		select {
		case b := <-batches:
			f.pass(ctx, b.source, b.Batch)
		case err := <-ended:
			return err
		}
	}
}
