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

// FollowerConfig describes a Follower. All fields except SetRevision, Logger and Metrics are required.
type FollowerConfig[T any] struct {
	// Name is the plural name of the objects in errors, logs and metrics.
	Name string
	// Read derives the data of an object. It may be called concurrently, and is called without Lock. An error
	// is logged, and the object is treated as deleted.
	Read func(*codec.Record) (T, error)

	// Lock is held during calls to the functions below.
	Lock sync.Locker
	// Set adds or replaces the data of an object.
	Set func(types.NamespacedName, T)
	// Remove removes the data of an object. It may be called for objects without data.
	Remove func(types.NamespacedName)
	// Names iterates over the objects with data.
	Names iter.Seq[types.NamespacedName]
	// SetRevision is called before Set and Remove, with the revision of the change, and after a list was
	// processed, with the revision of the list; nil is ignored.
	SetRevision func(revision int64)

	Logger  *slog.Logger // nil discards
	Metrics *Metrics     // nil disables metrics
}

// Follower maintains in-memory data for all objects of a resource. A Reflector reports all writes, and a
// storage.Observer reports the writes of this server before they return. Outdated reports are ignored. It
// is safe for concurrent use.
type Follower[T any] struct {
	config  FollowerConfig[T]
	tracker VersionTracker // guarded by config.Lock
}

// NewFollower returns a Follower without data. The caller must run its Reflector.
func NewFollower[T any](config FollowerConfig[T]) *Follower[T] {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.SetRevision == nil {
		config.SetRevision = func(int64) {}
	}
	return &Follower[T]{config: config}
}

// Reflector returns a Reflector of a collection that reports to f. The caller runs it. Follower.Reflector
// returns an error if collection is nil or FollowerConfig.Name is empty.
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

// Observer returns an observer that reports writes to f. Its functions wait for FollowerConfig.Lock and
// return no error.
func (f *Follower[T]) Observer() *storage.Observer {
	return &storage.Observer{
		Written: func(record *codec.Record) error {
			f.set(record, f.tracker.Written)
			return nil
		},
		Deleted: func(name types.NamespacedName, revision int64) {
			f.remove(name, revision, f.tracker.Written)
		},
	}
}

// trackerKey returns the key of an object in the tracker.
func trackerKey(name types.NamespacedName) string { return name.Namespace + "/" + name.Name }

// replace processes a list. It reads the list without the lock.
func (f *Follower[T]) replace(list *rest.List) error {
	var items []derived[T]
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		items = append(items, f.read(record))
	}
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	missing := map[types.NamespacedName]struct{}{}
	for name := range f.config.Names {
		missing[name] = struct{}{}
	}
	for i := range items {
		delete(missing, items[i].name)
		if f.tracker.Reflected(trackerKey(items[i].name), items[i].revision) {
			f.setLocked(&items[i])
		}
	}
	for name := range missing {
		if f.tracker.Reflected(trackerKey(name), list.Revision) {
			f.removeLocked(name, list.Revision)
		}
	}
	f.tracker.Replaced(list.Revision)
	f.config.SetRevision(list.Revision)
	return nil
}

func (f *Follower[T]) apply(event *rest.Event) {
	name, revision := event.Record.Name(), event.Record.Revision()
	if event.Type == watch.Deleted {
		f.remove(name, revision, f.tracker.Reflected)
		return
	}
	if f.isReported(name, revision) {
		return
	}
	f.set(event.Record, f.tracker.Reflected)
}

// isReported reports whether a writer has already reported a change of the Reflector, or a later change. If
// so, it records the change, and the object need not be read again.
func (f *Follower[T]) isReported(name types.NamespacedName, revision int64) bool {
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	key := trackerKey(name)
	return f.tracker.written[key] >= revision && !f.tracker.Reflected(key, revision)
}

func (f *Follower[T]) set(record *codec.Record, isNewer func(string, int64) bool) {
	item := f.read(record)
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	if isNewer(trackerKey(item.name), item.revision) {
		f.setLocked(&item)
	}
}

func (f *Follower[T]) remove(name types.NamespacedName, revision int64, isNewer func(string, int64) bool) {
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	if isNewer(trackerKey(name), revision) {
		f.removeLocked(name, revision)
	}
}

func (f *Follower[T]) removeLocked(name types.NamespacedName, revision int64) {
	f.config.SetRevision(revision)
	f.config.Remove(name)
}

// derived is the data of an object, or the error of Read.
type derived[T any] struct {
	name     types.NamespacedName
	revision int64
	value    T
	err      error
}

func (f *Follower[T]) read(record *codec.Record) derived[T] {
	item := derived[T]{name: record.Name(), revision: record.Revision()}
	item.value, item.err = f.config.Read(record)
	return item
}

func (f *Follower[T]) setLocked(item *derived[T]) {
	if item.err != nil {
		f.config.Logger.Error("an object cannot be decoded and is ignored", "of", f.config.Name, "name", item.name, "err", item.err)
		f.removeLocked(item.name, item.revision)
		return
	}
	f.config.SetRevision(item.revision)
	f.config.Set(item.name, item.value)
}

// Followers are the Followers of a consumer, by resource.
type Followers map[schema.GroupResource]interface {
	Reflector(Collection) (*Reflector, error)
	Observer() *storage.Observer
}

// Resources iterates over the followed resources in random order.
func (f Followers) Resources() iter.Seq[schema.GroupResource] { return maps.Keys(f) }

// Reflector returns a Reflector that reports the objects of a collection to the Follower of a
// resource. It panics if resource is not one of Resources. It returns the same errors as Follower.Reflector.
func (f Followers) Reflector(resource schema.GroupResource, collection Collection) (*Reflector, error) {
	return f[resource].Reflector(collection)
}

// Observer returns the observer of writes to one of Resources, or nil for other resources.
func (f Followers) Observer(resource schema.GroupResource) *storage.Observer {
	if follower := f[resource]; follower != nil {
		return follower.Observer()
	}
	return nil
}
