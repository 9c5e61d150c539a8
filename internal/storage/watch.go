package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// WatchPlan is a watch request resolved.
type WatchPlan struct {
	Selection
	// Initial: the watch starts with the current objects.
	Initial bool
	// MarkInitialEnd adds a bookmark after them.
	MarkInitialEnd bool
	// Min is the oldest revision that the initial objects may have. Any means
	// that any from Min on will do; else the newest is required.
	Min kv.Revision
	Any bool
	// From is the revision after which changes are reported, without initial objects; 0 means the
	// newest.
	From kv.Revision
}

// PlanWatch resolves a watch request by the rules of the API concepts page.
func (s *Store) PlanWatch(namespace string, options rest.ListOptions) (*WatchPlan, error) {
	sel, err := s.Select(namespace, options)
	if err != nil {
		return nil, err
	}
	rv, err := ParseResourceVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	plan := &WatchPlan{Selection: sel}
	if send := options.SendInitialEvents; send != nil {
		plan.Initial = *send
		plan.MarkInitialEnd = *send && options.AllowBookmarks
	} else {
		plan.Initial = rv == 0
	}
	if plan.Initial {
		plan.Min, plan.Any = rv, options.ResourceVersion != ""
	} else {
		plan.From = rv
	}
	return plan, nil
}

// List is the request for the initial objects.
func (p *WatchPlan) List() *ListPlan {
	return &ListPlan{Selection: p.Selection, Min: p.Min, Any: p.Any}
}

// ListFunc lists by a plan.
type ListFunc func(context.Context, *ListPlan) (*rest.List, error)

// Start returns the configuration of a watch's Cursor without its Source. list creates the initial
// objects. An error with IsStreamed is the first event of the watch.
func (s *Store) Start(ctx context.Context, plan *WatchPlan, options rest.ListOptions, list ListFunc) (CursorConfig, error) {
	cfg := CursorConfig{
		Selection: plan.Selection, MarkInitialEnd: plan.MarkInitialEnd, From: int64(plan.From), Bookmarks: options.AllowBookmarks,
		Deadline: options.Deadline, converts: s.kind.Convert != nil,
	}
	if options.Visibility != nil && s.namespaced {
		cfg.view = &view{rights: options.Visibility, list: list}
	}
	var err error
	if plan.Initial {
		if cfg.Initial, err = cfg.view.initial(ctx, plan.List(), list); err != nil {
			return cfg, err
		}
		cfg.From = cfg.Initial.Revision
	}
	var current kv.Revision
	if cfg.From == 0 || cfg.view != nil {
		if current, err = s.backend.CurrentRevision(ctx); err != nil {
			return cfg, fmt.Errorf("watch %s: %w", plan.Prefix, err)
		}
	}
	if cfg.From == 0 {
		cfg.From = int64(current)
	}
	if cfg.view != nil && !plan.Initial {
		err = cfg.view.resume(cfg.From, int64(current))
	}
	return cfg, err
}

// IsStreamed reports whether an error is one that a watch sends as its first event.
func IsStreamed(err error) bool {
	return errors.Is(err, ErrExpired) || errors.As(err, new(*FutureRevisionError))
}

// Watch implements Interface.
func (s *Store) Watch(ctx context.Context, namespace string, options rest.ListOptions) (rest.Watch, error) {
	plan, err := s.PlanWatch(namespace, options)
	if err != nil {
		return nil, err
	}
	cfg, err := s.Start(ctx, plan, options, s.ListPlanned)
	if err == nil {
		cfg.Source, err = s.Changes(ctx, &plan.Selection, kv.Revision(cfg.From))
	}
	if IsStreamed(err) {
		return Failed(err), nil
	}
	if err != nil {
		return nil, err
	}
	return NewCursor(cfg), nil
}

// Failed returns a watch whose Next returns err.
func Failed(err error) rest.Watch { return failed{err} }

type failed struct{ err error }

func (f failed) Next(context.Context) ([]rest.Event, error) { return nil, f.err }
func (f failed) Close() error                               { return nil }

// bookmarkWait bounds how long a bookmark waits for the backend's progress.
const bookmarkWait = time.Second

// backendSource is the Source that reads the backend's own watch.
type backendSource struct {
	store    *Store
	watch    kv.Watch
	progress int64
	changes  []*Change
	// ended is the error that ended it.
	ended error
}

// Changes returns the changes of a range after a revision, from the backend,
// until ctx ends. The error is an ErrExpired where they are compacted.
func (s *Store) Changes(ctx context.Context, sel *Selection, from kv.Revision) (Source, error) {
	w, err := s.backend.Watch(ctx, sel.Start, sel.End, max(from, from+1)) // the largest revision has no next
	if errors.Is(err, kv.ErrCompacted) {
		return nil, s.tooOld(ctx, from)
	}
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", sel.Prefix, err)
	}
	return &backendSource{store: s, watch: w, progress: int64(from)}, nil
}

func (s *Store) tooOld(ctx context.Context, from kv.Revision) error {
	oldest, err := s.backend.CompactedRevision(ctx)
	if err != nil {
		return fmt.Errorf("watch from revision %d: %w", from, err)
	}
	return TooOld(int64(from), int64(oldest))
}

// Next implements Source.
func (f *backendSource) Next(ctx context.Context, wake <-chan time.Time, changed <-chan struct{}) ([]*Change, int64, error) {
	clear(f.changes)
	f.changes = f.changes[:0]
	if f.ended != nil {
		return nil, f.progress, f.ended
	}
	select {
	case batch, ok := <-f.watch.Batches():
		if !ok {
			f.ended = f.reason(ctx)
			return nil, f.progress, f.ended
		}
		f.take(ctx, batch)
		return f.changes, f.progress, nil
	case <-changed:
		err := f.catchUp(ctx)
		return f.changes, f.progress, err
	case <-wake:
		soon, cancel := context.WithTimeout(ctx, bookmarkWait)
		defer cancel()
		err := f.catchUp(soon)
		if soon.Err() != nil && ctx.Err() == nil {
			err = nil // the bookmark has the revision of the received changes
		}
		return f.changes, f.progress, err
	case <-ctx.Done():
		return nil, f.progress, ctx.Err()
	}
}

// catchUp reads all available changes.
func (f *backendSource) catchUp(ctx context.Context) error {
	backend := f.store.backend
	current, err := backend.CurrentRevision(ctx)
	if err == nil && f.progress < int64(current) {
		err = backend.RequestProgress(ctx)
	}
	if err != nil {
		return fmt.Errorf("catch up with the store: %w", err)
	}
	for f.progress < int64(current) && f.ended == nil {
		select {
		case batch, ok := <-f.watch.Batches():
			if !ok {
				f.ended = f.reason(ctx)
				return nil // send changes first
			}
			f.take(ctx, batch)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// take appends the changes of a batch. An event that does not decode ends the
// watch after the changes before it.
func (f *backendSource) take(ctx context.Context, batch kv.Batch) {
	for i := range batch.Events {
		change, err := f.store.NewChange(ctx, &batch.Events[i], nil)
		if err != nil {
			f.ended = fmt.Errorf("watch: %w", err)
			return
		}
		f.changes = append(f.changes, change)
		f.progress = change.Revision
	}
	f.progress = max(f.progress, int64(batch.Revision))
}

// reason returns the error of a watch that the backend has ended.
func (f *backendSource) reason(ctx context.Context) error {
	switch err := f.watch.Err(); {
	case errors.Is(err, kv.ErrCompacted):
		return f.store.tooOld(ctx, kv.Revision(f.progress))
	case errors.Is(err, kv.ErrClosed), err == nil && ctx.Err() == nil:
		return rest.ErrWatchClosed
	case err == nil:
		return ctx.Err()
	default:
		return fmt.Errorf("watch: %w", err)
	}
}

// Close implements Source.
func (f *backendSource) Close() error {
	f.watch.Stop()
	return nil
}
