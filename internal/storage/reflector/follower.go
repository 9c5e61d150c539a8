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
	// Name is the plural name of the objects in errors, logs and metrics.
	Name string
	// Read derives the retained data of an object. It is called concurrently and without the lock.
	// An error is logged, and the object is treated as deleted.
	Read func(*codec.Record) (T, error)

	// Lock is held during calls of the next three functions.
	Lock sync.Locker
	Set  func(types.NamespacedName, T)
	// Remove is called for objects that were never there, too.
	Remove func(types.NamespacedName)
	// Names iterates over the retained objects.
	Names iter.Seq[types.NamespacedName]
	// At is called with the lock before the other functions, with the revision of the next changes,
	// and with that of a list after all of it was processed; may be nil.
	At func(revision int64)

	Logger  *slog.Logger // nil discards
	Metrics *Metrics     // nil disables metrics
}

// Follower maintains in-memory data for all objects of a resource. A Reflector reports all writes;
// a storage.Observer reports the writes of this server before they return. Outdated reports are
// ignored.
type Follower[T any] struct {
	config  FollowerConfig[T]
	tracker VersionTracker // guarded by config.Lock
}

// NewFollower returns an empty Follower. Its Reflector reports all objects.
func NewFollower[T any](config FollowerConfig[T]) *Follower[T] {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.At == nil {
		config.At = func(int64) {}
	}
	return &Follower[T]{config: config}
}

// Reflector returns the Reflector of the Follower for a collection.
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

// Observer returns the observer of writes.
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

// textOf returns the key of an object in the tracker.
func textOf(name types.NamespacedName) string { return name.Namespace + "/" + name.Name }

// replace processes a list. It reads the list without the lock.
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

// reported records a change that its writer has already reported, as usual, so that it is not read
// again. It reports whether that is the case.
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

// kept is the retained data of an object, or its error.
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
		f.config.Logger.Error("an object cannot be decoded and is ignored", "of", f.config.Name, "name", item.name, "err", item.err)
		f.gone(item.name, item.revision)
		return
	}
	f.config.At(item.revision)
	f.config.Set(item.name, item.value)
}

// Followers are the Followers of a consumer, by resource.
type Followers map[schema.GroupResource]interface {
	Reflector(Collection) (*Reflector, error)
	Observer() *storage.Observer
}

// Resources are the resources that are followed.
func (f Followers) Resources() iter.Seq[schema.GroupResource] { return maps.Keys(f) }

// Reflector returns the Reflector of one of Resources.
func (f Followers) Reflector(resource schema.GroupResource, collection Collection) (*Reflector, error) {
	return f[resource].Reflector(collection)
}

// Observer returns the observer of the writes of one of Resources, which makes them effective
// before they return; nil for other resources.
func (f Followers) Observer(resource schema.GroupResource) *storage.Observer {
	if follower := f[resource]; follower != nil {
		return follower.Observer()
	}
	return nil
}
