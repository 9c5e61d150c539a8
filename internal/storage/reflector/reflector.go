// Package reflector follows a stored collection, like client-go's Reflector: it lists the collection, watches
// it from the revision of the list, resumes watches that end, and lists again if it cannot resume. All parts
// of the server that follow stored objects use it, for example definitions and APIServices. A Reflector
// stores no objects; the functions of its Config do. The package also contains
//
//   - Backoff, the delays between attempts;
//   - VersionTracker, which drops outdated reports if a Reflector and writers report the same changes;
//   - Follower and Objects, which maintain data for all objects of a collection from the reports of a
//     Reflector and of writers.
package reflector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// Collection is the input of a Reflector, such as a storage.Interface.
type Collection interface {
	rest.Lister
	rest.Watcher
}

// Config describes a Reflector. Its functions are called one at a time, on the goroutine of Load
// and Run and with their context; a slow function delays later events. Records are immutable and may
// be retained.
// An error or panic of a function means that the consumer is inconsistent with the collection:
// after a backoff, Replace is called again. Errors that a retry cannot fix, such as an undecodable
// object, should therefore be logged and not returned.
type Config struct {
	// Name is the plural name of the objects in errors, logs and metrics, for example
	// "definitions". Required.
	Name string
	// Collection is the followed collection. Required. Namespace limits it to a namespace; empty selects all.
	// Labels and Fields are selectors; nil selects everything.
	Collection Collection
	Namespace  string
	Labels     labels.Selector
	Fields     fields.Selector

	// Replace replaces the consumer's state with a list; absent objects were deleted. It must
	// return the error of an item that it reads, but need not read all items. Required.
	Replace func(ctx context.Context, list *rest.List) error
	// BeforeWatch is called by Run before its first watch, and before the first watch after each Replace, for
	// work that must not delay Load; nil is ignored.
	BeforeWatch func(ctx context.Context) error
	// Apply applies one or more events of type Added, Modified or Deleted. The slice is valid only
	// during the call. Required.
	Apply func(ctx context.Context, events []rest.Event) error

	Logger  *slog.Logger // nil discards
	Metrics *Metrics     // nil disables metrics
}

// Reflector passes the content of a collection and its changes to the functions of its Config. It calls
// Replace once, and then Apply with each later change, exactly once and in order. A watch that ends after
// progress is resumed at its last revision. If that is impossible, because history was compacted (410
// Expired), the watch made no progress, or a function of the Config failed, Replace is called again with a
// new list, without the individual changes in between. The revision of a list is never older than the
// revisions that were already reported. Failed attempts are retried with Backoff. The first failure is logged
// as a warning, the following ones at debug level, and the first success after them at info level: two lines
// per outage.
type Reflector struct {
	config Config
	synced chan struct{} // closed after the first Replace

	// The fields below belong to the goroutine of Load and Run.

	// revision is the revision up to which changes were passed to Apply; 0 requires a list.
	revision int64
	prepared bool // BeforeWatch was called since the start of Run and the last Replace
	backoff  wait.Backoff
	// failing is the time of the first failure of an outage; zero without an outage.
	failing time.Time
}

// New returns a Reflector. It does not use the collection before Load or Run. The error names the missing required
// fields of config.
func New(config Config) (*Reflector, error) {
	var errs []error
	for _, field := range []struct {
		name    string
		missing bool
	}{
		{"Name", config.Name == ""}, {"Collection", config.Collection == nil},
		{"Replace", config.Replace == nil}, {"Apply", config.Apply == nil},
	} {
		if field.missing {
			errs = append(errs, errors.New(field.name+" is required"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("reflector of %s: %w", config.Name, err)
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.BeforeWatch == nil {
		config.BeforeWatch = func(context.Context) error { return nil }
	}
	return &Reflector{config: config, synced: make(chan struct{}), backoff: Backoff(MaxBackoff)}, nil
}

// Synced returns a channel that is closed after the first successful Replace. It stays closed during later failures.
func (r *Reflector) Synced() <-chan struct{} { return r.synced }

// Load lists the collection and calls Replace once. A server calls it before it serves requests; Run then watches from the
// revision of the list. It must not be called concurrently with Run. The error comes from the storage or Replace.
func (r *Reflector) Load(ctx context.Context) error {
	r.revision, r.prepared = 0, false
	r.config.Metrics.listed(r.config.Name)
	list, err := r.config.Collection.List(ctx, r.config.Namespace, rest.ListOptions{Labels: r.config.Labels, Fields: r.config.Fields})
	if err != nil {
		return fmt.Errorf("list %s: %w", r.config.Name, err)
	}
	checked := *list
	var itemErr error // in case Replace does not return it
	checked.Items = func(yield func(*codec.Record, error) bool) {
		for record, err := range list.Items {
			if err != nil {
				err = fmt.Errorf("list %s: %w", r.config.Name, err)
				itemErr = err
			}
			if !yield(record, err) {
				return
			}
		}
	}
	if err := r.call(func() error { return r.config.Replace(ctx, &checked) }); err != nil {
		return err
	}
	if itemErr != nil {
		return itemErr
	}
	r.revision = list.Revision
	select {
	case <-r.synced:
	default:
		close(r.synced)
	}
	return nil
}

// Run watches the collection until ctx ends, and lists it if necessary. It may be called again afterwards, and then
// resumes at the last revision. It must not be called concurrently.
func (r *Reflector) Run(ctx context.Context) {
	r.prepared = false
	r.run(ctx, nil)
}

// run is like Run, but it starts with the open watch w and closes it. If w is nil, run opens a watch.
func (r *Reflector) run(ctx context.Context, w rest.Watch) {
	defer r.config.Metrics.setCurrent(r.config.Name, false)
	for {
		advanced, err := r.listAndWatch(ctx, w)
		w = nil
		if ctx.Err() != nil {
			return
		}
		if r.ended(advanced, err) && Sleep(ctx, &r.backoff) != nil {
			return
		}
	}
}

// ended records the end of a watch. advanced reports that the watch made progress, so that the next watch can
// be opened at r.revision. It returns true if the collection must be listed after a delay.
func (r *Reflector) ended(advanced bool, err error) (delayed bool) {
	if advanced {
		r.backoff = Backoff(MaxBackoff)
		r.config.Logger.Debug("watch ended, resuming", "of", r.config.Name, "revision", r.revision, "err", err)
		return false
	}
	r.revision = 0
	r.recordFailure(err)
	return true
}

// listAndWatch lists the collection if necessary, and watches it until the watch fails. w is an open watch, or nil.
// advanced is the argument of ended.
func (r *Reflector) listAndWatch(ctx context.Context, w rest.Watch) (advanced bool, err error) {
	if w == nil {
		if w, err = r.open(ctx); err != nil {
			return false, err
		}
	}
	defer func() { _ = w.Close() }()
	opened := time.Now()
	for {
		events, err := w.Next(ctx)
		if time.Since(opened) >= MaxBackoff {
			r.backoff = Backoff(MaxBackoff)
			advanced = true
		}
		if err != nil {
			return advanced, fmt.Errorf("watch %s: %w", r.config.Name, err)
		}
		if err := r.apply(ctx, events); err != nil {
			return false, err
		}
		advanced = true
	}
}

// open lists the collection if necessary, and opens a watch, which the caller must close.
func (r *Reflector) open(ctx context.Context) (rest.Watch, error) {
	if r.revision == 0 {
		if err := r.Load(ctx); err != nil {
			return nil, err
		}
	}
	if !r.prepared {
		if err := r.call(func() error { return r.config.BeforeWatch(ctx) }); err != nil {
			return nil, err
		}
		r.prepared = true
	}
	// Bookmarks advance the revision of idle collections, so that it is not compacted.
	w, err := r.config.Collection.Watch(ctx, r.config.Namespace, rest.ListOptions{
		Labels: r.config.Labels, Fields: r.config.Fields, ResourceVersion: strconv.FormatInt(r.revision, 10), AllowBookmarks: true,
	})
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", r.config.Name, err)
	}
	r.recordOpened()
	return w, nil
}

// apply passes events to Config.Apply, without bookmarks, which only advance the revision.
func (r *Reflector) apply(ctx context.Context, events []rest.Event) error {
	for len(events) > 0 {
		if events[0].Type == watch.Bookmark {
			r.revision = max(r.revision, events[0].Revision)
			events = events[1:]
			continue
		}
		n := slices.IndexFunc(events, func(e rest.Event) bool { return e.Type == watch.Bookmark })
		if n < 0 {
			n = len(events)
		}
		if err := r.call(func() error { return r.config.Apply(ctx, events[:n:n]) }); err != nil {
			return err
		}
		r.revision = events[n-1].Record.Revision() // Next returns all events of a commit together
		events = events[n:]
	}
	return nil
}

// call calls a function of the Config and returns its error. It converts a panic of the function to an
// error.
func (r *Reflector) call(function func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("process %s: panic: %v\n%s", r.config.Name, reason, debug.Stack())
		}
	}()
	return function()
}

// recordOpened records that the watch was opened, which ends an outage.
func (r *Reflector) recordOpened() {
	r.config.Metrics.setCurrent(r.config.Name, true)
	if !r.failing.IsZero() {
		r.config.Logger.Info("list or watch recovered", "of", r.config.Name, "after", time.Since(r.failing))
		r.failing = time.Time{}
	}
}

// recordFailure records a failure after which the collection must be listed.
func (r *Reflector) recordFailure(err error) {
	r.config.Metrics.failed(r.config.Name)
	r.config.Metrics.setCurrent(r.config.Name, false)
	switch {
	case !r.failing.IsZero():
		r.config.Logger.Debug("list or watch still fails", "of", r.config.Name, "err", err)
	case apierrors.IsResourceExpired(err):
		r.config.Logger.Info("watch expired, listing again", "of", r.config.Name, "err", err)
	default:
		r.failing = time.Now()
		r.config.Logger.Warn("list or watch failed, retrying", "of", r.config.Name, "err", err)
	}
}
