package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// WatchPlan is a resolved watch request.
type WatchPlan struct {
	Selection
	// Initial is set if the watch starts with the current objects.
	Initial bool
	// MarkInitialEnd adds a bookmark after the initial objects.
	MarkInitialEnd bool
	// Min is the oldest revision that the initial objects may have. If Any is set, any revision
	// from Min on is acceptable; otherwise the newest one is required.
	Min kv.Revision
	Any bool
	// From is the revision after which changes are reported if Initial is not set; 0 means the newest
	// revision.
	From kv.Revision
	// Bookmarks enables bookmarks, about once a minute.
	Bookmarks bool
	// Deadline is the time at which the watch will end; zero if the watch has no deadline.
	Deadline time.Time

	// visibility limits the watch to the namespaces that the client may see; nil means no limit.
	visibility request.Visibility
	// converts is set if reading an object may block on a conversion webhook.
	converts bool
}

// PlanWatch resolves a watch request by the rules of the Kubernetes API concepts page. The error is a
// *field.Error for an invalid resourceVersion, or an *InvalidOptionError. PlanWatch does not block.
func (s *Store) PlanWatch(namespace string, options rest.ListOptions) (*WatchPlan, error) {
	sel, err := s.Select(namespace, options)
	if err != nil {
		return nil, err
	}
	rv, err := ParseResourceVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	plan := &WatchPlan{Selection: sel, Bookmarks: options.AllowBookmarks, Deadline: options.Deadline, converts: s.kind.Convert != nil}
	if s.namespaced {
		plan.visibility = options.Visibility
	}
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

// list returns the request for the initial objects.
func (p *WatchPlan) list() *ListPlan {
	return &ListPlan{Selection: p.Selection, Min: p.Min, Any: p.Any}
}

// WatchReader is the storage that a watch reads. A Store implements it over its backend. A
// cache.Cacher implements it over its cache, and calls its Store if the cache does not have the
// requested data. A Store never calls a Cacher. It is safe for concurrent use.
type WatchReader interface {
	// ListPlanned returns the list of a resolved request. Errors may also occur during the
	// iteration.
	ListPlanned(context.Context, *ListPlan) (*rest.List, error)
	// Changes returns the changes of a selection after a revision, until ctx ends. The stream shares
	// sel, which must not be modified. The error wraps ErrExpired if the changes are compacted.
	Changes(ctx context.Context, sel *Selection, from kv.Revision) (ChangeStream, error)
	// CurrentRevision returns the newest revision of the backend.
	CurrentRevision(context.Context) (kv.Revision, error)
}

// OpenWatch opens the watch of a resolved request over a storage. It blocks while it lists the initial
// objects. Errors that kube-apiserver sends in the stream are returned by the first Next of the watch.
func OpenWatch(ctx context.Context, reader WatchReader, plan *WatchPlan) (rest.Watch, error) {
	c, err := startCursor(ctx, reader, plan)
	if err == nil {
		c.stream, err = reader.Changes(ctx, &plan.Selection, kv.Revision(c.progress))
		if err != nil && c.stopInitial != nil {
			c.stopInitial() // releases the initial list and its goroutine
		}
	}
	if errors.Is(err, ErrExpired) || errors.As(err, new(*FutureRevisionError)) {
		return FailedWatch(err), nil
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// startCursor returns the cursor of a plan without a stream.
func startCursor(ctx context.Context, reader WatchReader, plan *WatchPlan) (*cursor, error) {
	var visible *visibleNamespaces
	if plan.visibility != nil {
		visible = &visibleNamespaces{visibility: plan.visibility, reader: reader}
	}
	var err error
	var initial *rest.List
	from := int64(plan.From)
	if plan.Initial {
		if initial, err = visible.listInitial(ctx, reader, plan.list()); err != nil {
			return nil, err
		}
		from = initial.Revision
	}
	var current kv.Revision
	if from == 0 || visible != nil {
		if current, err = reader.CurrentRevision(ctx); err != nil {
			return nil, fmt.Errorf("watch %s: %w", plan.Prefix, err)
		}
	}
	if from == 0 {
		from = int64(current)
	}
	if visible != nil && !plan.Initial {
		err = visible.resume(from, int64(current))
	}
	return newCursor(plan, initial, from, visible), err
}

// Watch implements Interface.
func (s *Store) Watch(ctx context.Context, namespace string, options rest.ListOptions) (rest.Watch, error) {
	plan, err := s.PlanWatch(namespace, options)
	if err != nil {
		return nil, err
	}
	return OpenWatch(ctx, s, plan)
}

// FailedWatch returns a watch whose Next always returns err, for errors that kube-apiserver sends in the
// stream. Close has no effect.
func FailedWatch(err error) rest.Watch { return failedWatch{err} }

type failedWatch struct{ err error }

func (f failedWatch) Next(context.Context) ([]rest.Event, error) { return nil, f.err }
func (f failedWatch) Close() error                               { return nil }

// progressTimeout is the maximum time that a due bookmark waits for the progress of the backend.
const progressTimeout = time.Second

// backendStream is the ChangeStream over a watch of the backend.
type backendStream struct {
	store    *Store
	watch    kv.Watch
	progress int64
	changes  []*Change
	// err is the error that ended the stream; nil while it is open.
	err error
	// notified is set after Poll has passed its wake function to the watch.
	notified bool
}

var _ WatchReader = (*Store)(nil)

// CurrentRevision implements WatchReader.
func (s *Store) CurrentRevision(ctx context.Context) (kv.Revision, error) {
	return s.backend.CurrentRevision(ctx)
}

// Changes implements WatchReader with a watch of the backend.
func (s *Store) Changes(ctx context.Context, sel *Selection, from kv.Revision) (ChangeStream, error) {
	w, err := s.backend.Watch(ctx, sel.Start, sel.End, max(from, from+1)) // the largest revision has no successor
	if errors.Is(err, kv.ErrCompacted) {
		return nil, compactedError(err, s.tooOld(ctx, from))
	}
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", sel.Prefix, err)
	}
	return &backendStream{store: s, watch: w, progress: int64(from)}, nil
}

// tooOld returns the error for a watch from a compacted revision.
func (s *Store) tooOld(ctx context.Context, from kv.Revision) error {
	oldest, err := s.backend.CompactedRevision(ctx)
	if err != nil {
		return fmt.Errorf("watch from revision %d: %w", from, err)
	}
	return TooOld(int64(from), int64(oldest))
}

// Next implements ChangeStream.
func (b *backendStream) Next(ctx context.Context, timer <-chan time.Time, catchUp <-chan struct{}) ([]*Change, int64, error) {
	clear(b.changes)
	b.changes = b.changes[:0]
	if b.err != nil {
		return nil, b.progress, b.err
	}
	select {
	case batch, ok := <-b.watch.Batches():
		return b.receive(ctx, batch, ok)
	case <-catchUp:
		err := b.readAvailable(ctx)
		return b.changes, b.progress, err
	case <-timer:
		limited, cancel := context.WithTimeout(ctx, progressTimeout)
		defer cancel()
		// If this fails, the bookmark has the revision of the changes received so far. A permanent error also
		// ends the watch of the backend, which reports it.
		_ = b.readAvailable(limited)
		return b.changes, b.progress, ctx.Err()
	case <-ctx.Done():
		return nil, b.progress, ctx.Err()
	}
}

// Poll implements poller. It returns rest.ErrWouldBlock if the watch of the backend is not a kv.Notifier, or
// if values must be decrypted. Unlike Next, it does not request progress from the backend.
func (b *backendStream) Poll(ctx context.Context, wake func()) ([]*Change, int64, error) {
	clear(b.changes)
	b.changes = b.changes[:0]
	if b.err != nil {
		return nil, b.progress, b.err
	}
	notifier, ok := b.watch.(kv.Notifier)
	if !ok || b.store.transformer != (Identity{}) { // decryption can block
		return nil, b.progress, rest.ErrWouldBlock
	}
	if !b.notified {
		notifier.Notify(wake)
		b.notified = true
	}
	select {
	case batch, ok := <-b.watch.Batches():
		wake() // another batch may be available
		return b.receive(ctx, batch, ok)
	default:
		return nil, b.progress, nil
	}
}

// receive returns the changes of a batch, or the error of a closed watch if ok is false.
func (b *backendStream) receive(ctx context.Context, batch kv.Batch, ok bool) ([]*Change, int64, error) {
	if !ok {
		b.err = b.watchError(ctx)
		return nil, b.progress, b.err
	}
	b.append(ctx, batch)
	return b.changes, b.progress, nil
}

// readAvailable reads all changes up to the current revision of the backend.
func (b *backendStream) readAvailable(ctx context.Context) error {
	backend := b.store.backend
	current, err := backend.CurrentRevision(ctx)
	if err == nil && b.progress < int64(current) {
		err = backend.RequestProgress(ctx)
	}
	if err != nil {
		return fmt.Errorf("request progress of the watch: %w", err)
	}
	for b.progress < int64(current) && b.err == nil {
		select {
		case batch, ok := <-b.watch.Batches():
			if !ok {
				b.err = b.watchError(ctx)
				return nil // the next call returns the error, after these changes
			}
			b.append(ctx, batch)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// append appends the changes of a batch. An event that cannot be decoded ends the stream after the previous
// commit. A client that received only part of a commit would skip the rest of the commit when it resumes the
// watch.
func (b *backendStream) append(ctx context.Context, batch kv.Batch) {
	for i := range batch.Events {
		change, err := b.store.NewChange(ctx, &batch.Events[i], nil)
		if err != nil {
			revision := int64(batch.Events[i].Revision)
			b.err = fmt.Errorf("watch: %w", err)
			b.changes = slices.DeleteFunc(b.changes, func(c *Change) bool { return c.Revision == revision })
			b.progress = max(b.progress, revision-1)
			return
		}
		b.changes = append(b.changes, change)
	}
	b.progress = max(b.progress, int64(batch.Revision))
}

// watchError returns the error for a watch that the backend has ended.
func (b *backendStream) watchError(ctx context.Context) error {
	switch err := b.watch.Err(); {
	case errors.Is(err, kv.ErrCompacted):
		return b.store.tooOld(ctx, kv.Revision(b.progress))
	case errors.Is(err, kv.ErrClosed), err == nil && ctx.Err() == nil:
		return rest.ErrWatchClosed
	case err == nil:
		return ctx.Err()
	default:
		return fmt.Errorf("watch: %w", err)
	}
}

// Close implements ChangeStream.
func (b *backendStream) Close() error {
	b.watch.Stop()
	return nil
}
