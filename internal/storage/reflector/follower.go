package reflector

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// FollowerConfig describes a Follower. All fields but At, Logger and Metrics are required.
type FollowerConfig[T any] struct {
	// Name is what is followed, in the plural, in errors, logs and metrics.
	Name string
	// Read returns what is kept of an object. It is called without the lock, and
	// concurrently. An object that it cannot
	// read is logged, and kept as one that is gone.
	Read func(*codec.Record) (T, error)

	// Lock guards what the next three are about. They are called with it.
	Lock sync.Locker
	Set  func(types.NamespacedName, T)
	// Remove is called for objects that were never there, too.
	Remove func(types.NamespacedName)
	// Names yields the objects that are kept.
	Names iter.Seq[types.NamespacedName]
	// At is called with the lock, before the others, with the revision of what they are
	// about to be told, and with that of a list when all of it was told; nil: it is of no
	// interest.
	At func(revision int64)

	Logger  *slog.Logger // nil discards
	Metrics *Metrics     // nil counts nothing
}

// Follower keeps in memory what somebody needs of all objects of a resource: it is told of
// each write by a Reflector, and, so that writes through this server are in effect before
// they return, by a storage.Observer. What is older than what it knows it leaves out.
type Follower[T any] struct {
	config  FollowerConfig[T]
	tracker VersionTracker // guarded by config.Lock
}

// NewFollower returns a Follower that knows of no object. Its Reflector tells it of all.
func NewFollower[T any](config FollowerConfig[T]) *Follower[T] {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.At == nil {
		config.At = func(int64) {}
	}
	return &Follower[T]{config: config}
}

// Reflector returns what keeps the Follower up to date with a collection.
func (f *Follower[T]) Reflector(collection Collection) (*Reflector, error) {
	return New(Config{
		Name: f.config.Name, Collection: collection, Logger: f.config.Logger, Metrics: f.config.Metrics,
		Replace: func(_ context.Context, list *rest.List) error { return f.replace(list) },
		Apply: func(_ context.Context, events []rest.Event) error {
			for i := range events {
				f.apply(&events[i])
			}
			return nil
		},
	})
}

// Observer returns what is told of writes.
func (f *Follower[T]) Observer() *storage.Observer {
	return &storage.Observer{
		Written: func(record *codec.Record) error {
			f.take(record, f.tracker.Written)
			return nil
		},
		Deleted: func(name types.NamespacedName, revision int64) {
			f.remove(name, revision, f.tracker.Written)
		},
	}
}

// textOf is how the tracker knows an object.
func textOf(name types.NamespacedName) string { return name.Namespace + "/" + name.Name }

// replace takes up a list. The lock is not held while it is read.
func (f *Follower[T]) replace(list *rest.List) error {
	var items []kept[T]
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		items = append(items, f.read(record))
	}
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	gone := map[types.NamespacedName]struct{}{}
	for name := range f.config.Names {
		gone[name] = struct{}{}
	}
	for i := range items {
		delete(gone, items[i].name)
		if f.tracker.Reflected(textOf(items[i].name), items[i].revision) {
			f.keep(&items[i])
		}
	}
	for name := range gone {
		if f.tracker.Reflected(textOf(name), list.Revision) {
			f.gone(name, list.Revision)
		}
	}
	f.tracker.Replaced(list.Revision)
	f.config.At(list.Revision)
	return nil
}

func (f *Follower[T]) apply(event *rest.Event) {
	name, revision := event.Record.Name(), event.Record.Revision()
	if event.Type == watch.Deleted {
		f.remove(name, revision, f.tracker.Reflected)
		return
	}
	if f.reported(name, revision) {
		return
	}
	f.take(event.Record, f.tracker.Reflected)
}

// reported tells the tracker of a change that its writer has reported already, as most
// are, so that it is not read again. It reports whether it is one.
func (f *Follower[T]) reported(name types.NamespacedName, revision int64) bool {
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	at := textOf(name)
	return f.tracker.written[at] >= revision && !f.tracker.Reflected(at, revision)
}

func (f *Follower[T]) take(record *codec.Record, newest func(string, int64) bool) {
	item := f.read(record)
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	if newest(textOf(item.name), item.revision) {
		f.keep(&item)
	}
}

func (f *Follower[T]) remove(name types.NamespacedName, revision int64, newest func(string, int64) bool) {
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	if newest(textOf(name), revision) {
		f.gone(name, revision)
	}
}

func (f *Follower[T]) gone(name types.NamespacedName, revision int64) {
	f.config.At(revision)
	f.config.Remove(name)
}

// kept is what is kept of an object, or why it cannot be.
type kept[T any] struct {
	name     types.NamespacedName
	revision int64
	value    T
	err      error
}

func (f *Follower[T]) read(record *codec.Record) kept[T] {
	item := kept[T]{name: record.Name(), revision: record.Revision()}
	item.value, item.err = f.config.Read(record)
	return item
}

func (f *Follower[T]) keep(item *kept[T]) {
	if item.err != nil {
		f.config.Logger.Error("an object cannot be read, and counts as none", "of", f.config.Name, "name", item.name, "err", item.err)
		f.gone(item.name, item.revision)
		return
	}
	f.config.At(item.revision)
	f.config.Set(item.name, item.value)
}

// Followers are those of one consumer, by the resources that it follows.
type Followers map[schema.GroupResource]interface {
	Reflector(Collection) (*Reflector, error)
	Observer() *storage.Observer
}

// Resources are the resources that are followed.
func (f Followers) Resources() iter.Seq[schema.GroupResource] { return maps.Keys(f) }

// Reflector returns what keeps the consumer up to date with one of Resources.
func (f Followers) Reflector(resource schema.GroupResource, collection Collection) (*Reflector, error) {
	return f[resource].Reflector(collection)
}

// Observer returns what is told of the writes of one of Resources, so that they are in effect
// when they are answered; nil for other resources.
func (f Followers) Observer(resource schema.GroupResource) *storage.Observer {
	if follower := f[resource]; follower != nil {
		return follower.Observer()
	}
	return nil
}
