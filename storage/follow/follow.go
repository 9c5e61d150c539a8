// Package follow keeps somebody up to date with a stored collection: it reads
// what is there, then tells every change, and begins anew by itself when
// something fails. All loops in this server that follow objects are Followers:
// registrations, definitions, published trust. What they make of objects is
// their own affair; a Follower keeps none.
//
// Imports: codec, rest.
package follow

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
	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/rest"
)

// Collection is what can be followed: a storage.Interface, or whatever else
// lists and watches.
type Collection interface {
	rest.Lister
	rest.Watcher
}

// Config says what is followed, and who is told. Its functions are called one at
// a time, by Load and Run themselves, with their context; while one works, the
// next change waits. Records are as everywhere: immutable, and kept as long as
// somebody holds them.
//
// An error of one of the functions says that the collection was not taken in as
// it should be: after a pause, all of it is told again by Replace. What will not
// go better the next time, such as an object that cannot be read, is therefore
// no error but to be logged. A panic is an error too: one object that nobody
// thought of should not end the server.
type Config struct {
	// Name is what is followed, in the plural, as errors, log and metrics tell
	// it: "definitions". Required.
	Name string
	// Collection is followed in Namespace, all of them where it is empty, as
	// far as Labels and Fields choose; nil chooses all. Required.
	Collection Collection
	Namespace  string
	Labels     labels.Selector
	Fields     fields.Selector

	// Replace is told all there is, at list.Revision: what is not in the list
	// is not there any more. An error that comes with an item must be returned.
	// Nothing obliges it to run through the items. Required.
	Replace func(ctx context.Context, list *rest.List) error
	// Begin, where set, is called by Run before it watches from what Replace
	// was told: for what Load should leave undone.
	Begin func(ctx context.Context) error
	// Apply is told changes: additions, modifications and deletions, at least
	// one. The slice is valid during the call. Required.
	Apply func(ctx context.Context, events []rest.Event) error

	Logger  *slog.Logger // nil: nobody is told
	Metrics *Metrics     // nil: nothing is counted
}

// Follower follows a collection.
//
// Replace comes first, once, and then Apply with every change after the list's
// revision, each once and in order of revisions. When a watch ends that had come
// on, the next one goes on where it was. Where that is not possible, because
// what came since is gone (410 Expired), because the watch did not get anywhere,
// or because a function of the Config failed, Replace is called again, with what
// is there by then: changes in between are not told one by one. Its revision
// is never older than what was told before.
//
// Attempts that do not get anywhere are followed by Pauses. The first of them is
// logged as a warning, those that follow only for debugging, until there is one
// that could list and open its watch, which is logged too: two lines, however
// long the storage is away.
type Follower struct {
	config Config
	synced chan struct{} // closed after the first Replace

	// What follows belongs to the goroutine of Load and Run.

	// revision up to which everything was told; 0: a list is due.
	revision int64
	begun    bool // Begin was called since the last Replace
	pauses   Pauses
	// failing since then; zero: not.
	failing time.Time
}

// New returns a Follower that does nothing before Load or Run.
func New(config Config) (*Follower, error) {
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
		return nil, fmt.Errorf("follow %s: %w", config.Name, err)
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Begin == nil {
		config.Begin = func(context.Context) error { return nil }
	}
	return &Follower{config: config, synced: make(chan struct{})}, nil
}

// Synced is closed when Replace has been told of the whole collection for the
// first time, without an error. It says nothing of how old that is by now.
func (f *Follower) Synced() <-chan struct{} { return f.synced }

// Load lists the collection and has Replace take it in, once. A server calls it
// before Run, and is then ready with what is stored; Run goes on from there. It
// must not be called while Run runs.
func (f *Follower) Load(ctx context.Context) error {
	f.revision, f.begun = 0, false
	f.config.Metrics.listed(f.config.Name)
	list, err := f.config.Collection.List(ctx, f.config.Namespace, rest.ListOptions{Labels: f.config.Labels, Fields: f.config.Fields})
	if err != nil {
		return fmt.Errorf("list %s: %w", f.config.Name, err)
	}
	told := *list
	var broken error // also where Replace overlooks it
	told.Items = func(yield func(*codec.Record, error) bool) {
		for record, err := range list.Items {
			if err != nil {
				err = fmt.Errorf("list %s: %w", f.config.Name, err)
				broken = err
			}
			if !yield(record, err) {
				return
			}
		}
	}
	if err := f.call(func() error { return f.config.Replace(ctx, &told) }); err != nil {
		return err
	}
	if broken != nil {
		return broken
	}
	f.revision = list.Revision
	select {
	case <-f.synced:
	default:
		close(f.synced)
	}
	return nil
}

// Run follows the collection until ctx ends. It may be called again afterwards,
// and then goes on where it was; not twice at a time.
func (f *Follower) Run(ctx context.Context) {
	f.begun = false
	defer f.config.Metrics.following(f.config.Name, false)
	for {
		advanced, err := f.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if advanced {
			f.pauses.Reset()
			f.config.Logger.Debug("a watch ended and goes on", "of", f.config.Name, "revision", f.revision, "err", err)
			continue
		}
		f.revision = 0
		f.failed(err)
		if f.pauses.Wait(ctx) != nil {
			return
		}
	}
}

// follow watches, from a list where one is due, until something ends it. It is
// advanced where that went well as far as it went: the next watch can go on from
// there.
func (f *Follower) follow(ctx context.Context) (advanced bool, err error) {
	if f.revision == 0 {
		if err := f.Load(ctx); err != nil {
			return false, err
		}
	}
	if !f.begun {
		if err := f.call(func() error { return f.config.Begin(ctx) }); err != nil {
			return false, err
		}
		f.begun = true
	}
	// Bookmarks keep the revision young while there is nothing to tell.
	w, err := f.config.Collection.Watch(ctx, f.config.Namespace, rest.ListOptions{
		Labels: f.config.Labels, Fields: f.config.Fields, ResourceVersion: strconv.FormatInt(f.revision, 10), AllowBookmarks: true,
	})
	if err != nil {
		return false, fmt.Errorf("watch %s: %w", f.config.Name, err)
	}
	defer func() { _ = w.Close() }()
	f.opened()
	began := time.Now()
	for {
		events, err := w.Next(ctx)
		if lasted := time.Since(began) >= longestPause; lasted {
			f.pauses.Reset()
			advanced = true
		}
		if err != nil {
			return advanced, fmt.Errorf("watch %s: %w", f.config.Name, err)
		}
		if err := f.apply(ctx, events); err != nil {
			return false, err
		}
		advanced = true
	}
}

// apply hands on events, less the bookmarks among them.
func (f *Follower) apply(ctx context.Context, events []rest.Event) error {
	for len(events) > 0 {
		if events[0].Type == watch.Bookmark {
			f.revision = max(f.revision, events[0].Revision)
			events = events[1:]
			continue
		}
		n := slices.IndexFunc(events, func(e rest.Event) bool { return e.Type == watch.Bookmark })
		if n < 0 {
			n = len(events)
		}
		if err := f.call(func() error { return f.config.Apply(ctx, events[:n:n]) }); err != nil {
			return err
		}
		f.revision = events[n-1].Record.Revision() // no other event has it: each object is written by a commit of its own
		events = events[n:]
	}
	return nil
}

// call makes an error of a panic.
func (f *Follower) call(function func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("take in %s: panic: %v\n%s", f.config.Name, reason, debug.Stack())
		}
	}()
	return function()
}

// opened notes that all goes well.
func (f *Follower) opened() {
	f.config.Metrics.following(f.config.Name, true)
	if !f.failing.IsZero() {
		f.config.Logger.Info("followed again", "what", f.config.Name, "after", time.Since(f.failing))
		f.failing = time.Time{}
	}
}

// failed notes that a list is due again, and why.
func (f *Follower) failed(err error) {
	f.config.Metrics.failed(f.config.Name)
	f.config.Metrics.following(f.config.Name, false)
	switch {
	case !f.failing.IsZero():
		f.config.Logger.Debug("still not followed", "what", f.config.Name, "err", err)
	case apierrors.IsResourceExpired(err):
		f.config.Logger.Info("changes are gone before they were told: all is read again", "what", f.config.Name, "err", err)
	default:
		f.failing = time.Now()
		f.config.Logger.Warn("not followed at present: tried again until it goes well", "what", f.config.Name, "err", err)
	}
}
