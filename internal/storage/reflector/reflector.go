// Package reflector follows a stored collection, as client-go's Reflector does: it lists, watches
// from the revision of the list, resumes watches that end, and lists again if it cannot resume. All
// server loops over stored objects use it: definitions, APIServices, the cluster authentication
// ConfigMap. A Reflector stores no objects; the functions of its Config do. The package also
// contains Backoff, the delays between attempts, VersionTracker, which orders the reports of a
// Reflector and of writers, and Follower, which maintains data for all objects with both.
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
// and Run and with their context; events wait meanwhile. Records are immutable and may be retained.
// An error or panic of a function means that the consumer is inconsistent with the collection:
// after a backoff, Replace is called again. Errors that a retry cannot fix, such as an undecodable
// object, should therefore be logged and not returned.
type Config struct {
	// Name is the plural name of the objects in errors, logs and metrics, for example
	// "definitions". Required.
	Name string
	// Collection is read in Namespace, or in all namespaces where that is empty,
	// as far as Labels and Fields select; nil selects everything. Required.
	Collection Collection
	Namespace  string
	Labels     labels.Selector
	Fields     fields.Selector

	// Replace replaces the consumer's state with a list; absent objects were deleted. It must
	// return the error of an item that it reads, but need not read all items. Required.
	Replace func(ctx context.Context, list *rest.List) error
	// Begin, where set, is called by Run after each Replace and before the
	// watch is opened: for work that Load should leave undone.
	Begin func(ctx context.Context) error
	// Apply applies changes: one or more of Added, Modified and Deleted. The
	// slice is valid during the call. Required.
	Apply func(ctx context.Context, events []rest.Event) error

	Logger  *slog.Logger // nil discards
	Metrics *Metrics     // nil disables metrics
}

// Reflector reports the content of a collection and its changes. Replace is called once, then Apply
// with each change after the revision of the list, once each and in order. A watch that ends after
// progress is resumed at its last revision. If that is impossible, because history was compacted
// (410 Expired), the watch made no progress, or a function of the Config failed, Replace is called
// again with a new list, without the individual changes in between. The revision of a list is never
// older than reported revisions. Failed attempts are retried with Backoff. The first failure is
// logged as a warning, the following ones at debug level, and the first success after them at info
// level: two lines per outage.
type Reflector struct {
	config Config
	synced chan struct{} // closed after the first Replace

	// The fields below belong to the goroutine of Load and Run.

	// revision up to which changes were passed on; 0: a list is due.
	revision int64
	begun    bool // Begin was called since the last Replace
	backoff  wait.Backoff
	// failing is the time of the first failure of an outage; zero: no outage.
	failing time.Time
}

// New returns a Reflector, which is idle before Load or Run. The error names the
// required fields of the Config that are missing.
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
	if config.Begin == nil {
		config.Begin = func(context.Context) error { return nil }
	}
	return &Reflector{config: config, synced: make(chan struct{}), backoff: Backoff(MaxBackoff)}, nil
}

// Synced returns a channel that is closed after the first Replace that succeeded.
// It stays closed while the storage fails later.
func (r *Reflector) Synced() <-chan struct{} { return r.synced }

// Load lists the collection and calls Replace, once. A server calls it before it
// serves; Run then watches from the list's revision. It must not be called while
// Run runs. An error is the storage's or Replace's; a list is due then.
func (r *Reflector) Load(ctx context.Context) error {
	r.revision, r.begun = 0, false
	r.config.Metrics.listed(r.config.Name)
	list, err := r.config.Collection.List(ctx, r.config.Namespace, rest.ListOptions{Labels: r.config.Labels, Fields: r.config.Fields})
	if err != nil {
		return fmt.Errorf("list %s: %w", r.config.Name, err)
	}
	passed := *list
	var broken error // of an item, in case Replace does not return it
	passed.Items = func(yield func(*codec.Record, error) bool) {
		for record, err := range list.Items {
			if err != nil {
				err = fmt.Errorf("list %s: %w", r.config.Name, err)
				broken = err
			}
			if !yield(record, err) {
				return
			}
		}
	}
	if err := r.call(func() error { return r.config.Replace(ctx, &passed) }); err != nil {
		return err
	}
	if broken != nil {
		return broken
	}
	r.revision = list.Revision
	select {
	case <-r.synced:
	default:
		close(r.synced)
	}
	return nil
}

// Run watches the collection, and lists it where a list is due, until ctx ends.
// It may be called again afterwards, and then resumes where it was; it must not
// be called concurrently.
func (r *Reflector) Run(ctx context.Context) {
	r.begun = false
	defer r.config.Metrics.current(r.config.Name, false)
	for {
		advanced, err := r.listAndWatch(ctx)
		if ctx.Err() != nil {
			return
		}
		if advanced {
			r.backoff = Backoff(MaxBackoff)
			r.config.Logger.Debug("watch ended, resuming", "of", r.config.Name, "revision", r.revision, "err", err)
			continue
		}
		r.revision = 0
		r.failed(err)
		if Sleep(ctx, &r.backoff) != nil {
			return
		}
	}
}

// listAndWatch watches, from a list where one is due, until that fails. advanced
// reports that the watch made progress: the next one can be opened at r.revision.
func (r *Reflector) listAndWatch(ctx context.Context) (advanced bool, err error) {
	if r.revision == 0 {
		if err := r.Load(ctx); err != nil {
			return false, err
		}
	}
	if !r.begun {
		if err := r.call(func() error { return r.config.Begin(ctx) }); err != nil {
			return false, err
		}
		r.begun = true
	}
	// Bookmarks advance the revision of idle collections, so that it is not compacted.
	w, err := r.config.Collection.Watch(ctx, r.config.Namespace, rest.ListOptions{
		Labels: r.config.Labels, Fields: r.config.Fields, ResourceVersion: strconv.FormatInt(r.revision, 10), AllowBookmarks: true,
	})
	if err != nil {
		return false, fmt.Errorf("watch %s: %w", r.config.Name, err)
	}
	defer func() { _ = w.Close() }()
	r.opened()
	began := time.Now()
	for {
		events, err := w.Next(ctx)
		if lasted := time.Since(began) >= MaxBackoff; lasted {
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

// apply passes events to Apply without the bookmarks, which only advance the
// revision.
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
		r.revision = events[n-1].Record.Revision() // Next does not split a commit
		events = events[n:]
	}
	return nil
}

// call returns the error of a function of the Config, or its panic as an error.
func (r *Reflector) call(function func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("process %s: panic: %v\n%s", r.config.Name, reason, debug.Stack())
		}
	}()
	return function()
}

// opened records that the watch is open, which ends an outage.
func (r *Reflector) opened() {
	r.config.Metrics.current(r.config.Name, true)
	if !r.failing.IsZero() {
		r.config.Logger.Info("list or watch recovered", "of", r.config.Name, "after", time.Since(r.failing))
		r.failing = time.Time{}
	}
}

// failed records a failure after which a list is due.
func (r *Reflector) failed(err error) {
	r.config.Metrics.failed(r.config.Name)
	r.config.Metrics.current(r.config.Name, false)
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
