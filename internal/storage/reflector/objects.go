package reflector

import (
	"context"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// Objects passes all objects of a collection to a consumer, for example objects that configure the
// server. A Reflector reports all writes. Writers in this server also report their own writes before
// they return: Written and Deleted are the functions of a storage.Observer. Outdated reports are
// ignored. Objects is safe for concurrent use.
type Objects[T codec.Object] struct {
	config  ObjectsConfig[T]
	mu      sync.Mutex
	tracker VersionTracker
	known   map[types.NamespacedName]struct{}
	changed bool // Done must be called
}

// ObjectsConfig contains the functions of the consumer, which are called one at a time. All fields are required.
type ObjectsConfig[T codec.Object] struct {
	// Name is the plural name of the objects in errors, logs and metrics.
	Name string
	// Set adds or replaces an object, which is shared and must not be modified. Remove removes an object.
	// Done is called after one or more calls of Set and Remove.
	Set    func(T)
	Remove func(types.NamespacedName)
	Done   func()
	// Logger logs undecodable objects, which are treated as removed.
	Logger *slog.Logger
}

// NewObjects returns empty Objects. The caller must run a Reflector of them.
func NewObjects[T codec.Object](config ObjectsConfig[T]) *Objects[T] {
	return &Objects[T]{config: config, known: map[types.NamespacedName]struct{}{}}
}

// Reflector returns a Reflector of a collection that reports to o. The caller runs it. metrics may be
// nil. Reflector returns an error if collection is nil or ObjectsConfig.Name is empty.
func (o *Objects[T]) Reflector(collection Collection, metrics *Metrics) (*Reflector, error) {
	return New(Config{
		Name: o.config.Name, Collection: collection, Logger: o.config.Logger, Metrics: metrics,
		Replace: func(_ context.Context, list *rest.List) error { return o.replace(list) },
		Apply: func(_ context.Context, events []rest.Event) error {
			o.mu.Lock()
			defer o.mu.Unlock()
			for i := range events {
				o.apply(&events[i])
			}
			o.done()
			return nil
		},
	})
}

// Written applies a write by this server and calls the consumer, unless the write is outdated. It
// always returns nil.
func (o *Objects[T]) Written(record *codec.Record) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tracker.Written(record.Name().String(), record.Revision()) {
		o.set(record)
		o.done()
	}
	return nil
}

// Deleted applies a deletion by this server at a revision, unless it is outdated.
func (o *Objects[T]) Deleted(name types.NamespacedName, revision int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tracker.Written(name.String(), revision) {
		o.remove(name)
		o.done()
	}
}

// replace processes a list. It reads the list without the lock.
func (o *Objects[T]) replace(list *rest.List) error {
	var records []*codec.Record
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		records = append(records, record)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	listed := make(map[types.NamespacedName]struct{}, len(records))
	for _, record := range records {
		listed[record.Name()] = struct{}{}
		if o.tracker.Reflected(record.Name().String(), record.Revision()) {
			o.set(record)
		}
	}
	for name := range o.known {
		if _, ok := listed[name]; !ok && o.tracker.Reflected(name.String(), list.Revision) {
			o.remove(name)
		}
	}
	o.tracker.Replaced(list.Revision)
	o.done()
	return nil
}

func (o *Objects[T]) apply(event *rest.Event) {
	switch {
	case !o.tracker.Reflected(event.Record.Name().String(), event.Record.Revision()):
	case event.Type == watch.Deleted:
		o.remove(event.Record.Name())
	default:
		o.set(event.Record)
	}
}

func (o *Objects[T]) set(record *codec.Record) {
	obj, err := codec.SharedAs[T](record)
	if err != nil {
		o.config.Logger.Error("an object cannot be decoded and is ignored", "of", o.config.Name, "name", record.Name(), "err", err)
		o.remove(record.Name())
		return
	}
	o.known[record.Name()] = struct{}{}
	o.config.Set(obj)
	o.changed = true
}

func (o *Objects[T]) remove(name types.NamespacedName) {
	if _, ok := o.known[name]; ok {
		delete(o.known, name)
		o.config.Remove(name)
		o.changed = true
	}
}

func (o *Objects[T]) done() {
	if o.changed {
		o.changed = false
		o.config.Done()
	}
}
