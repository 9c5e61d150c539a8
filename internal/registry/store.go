package registry

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// Store is the REST storage of a stored resource: it implements all verbs on a storage.Interface by
// the rules of a Strategy. Its methods are safe for concurrent use, block during I/O, and return
// API errors (apierrors.APIStatus) for errors that a client can handle. The fields must not change
// after the first call.
type Store struct {
	// Resource names the resource in errors.
	Resource schema.GroupResource
	// Kind is the kind of the stored objects. Required.
	Kind *codec.Kind
	// Strategy contains the rules of the kind, and Storage stores the objects. Both are required.
	Strategy *Strategy
	Storage  storage.Interface
	// Limiter limits the number of objects that are prepared and validated concurrently. It is released
	// before the write. Validating objects of some kinds takes milliseconds of CPU; the limit keeps a burst
	// of writes of such objects from delaying other requests. nil means no limit.
	Limiter  Limiter
	Deletion Deletion
}

// Deletion configures deletions, for all resources of a server. The zero value is the default.
type Deletion struct {
	// IgnorePropagation makes deletions ignore their propagation policy: no finalizer for dependents
	// is added or removed, so that no garbage collector is required.
	IgnorePropagation bool
	// Workers is the number of objects that are deleted concurrently when a collection is deleted; 0 selects
	// 1. Values above MaxDeletionWorkers select MaxDeletionWorkers.
	Workers int
}

// MaxDeletionWorkers is the maximum of Deletion.Workers. More workers would use more memory without more
// throughput, because they share a disk.
const MaxDeletionWorkers = 256

// Limiter limits concurrent work, like semaphore.Weighted. It is safe for concurrent use.
type Limiter interface {
	// Acquire blocks until a weight of n is available. It returns the error of ctx if ctx ends
	// first.
	Acquire(ctx context.Context, n int64) error
	// Release releases a weight of n.
	Release(n int64)
}

var (
	_ rest.Getter            = (*Store)(nil)
	_ rest.Lister            = (*Store)(nil)
	_ rest.Watcher           = (*Store)(nil)
	_ rest.Creater           = (*Store)(nil)
	_ rest.Updater           = (*Store)(nil)
	_ rest.GracefulDeleter   = (*Store)(nil)
	_ rest.CollectionDeleter = (*Store)(nil)
)

// Cached returns the number and total size of the objects in the watch cache; see
// storage.Interface.
func (s *Store) Cached() (objects, bytes int64, known bool) { return s.Storage.Cached() }

// Get implements rest.Getter.
func (s *Store) Get(ctx context.Context, name types.NamespacedName, options metav1.GetOptions) (*codec.Record, error) {
	record, err := s.Storage.Get(ctx, name, storage.ReadOptions{ResourceVersion: options.ResourceVersion})
	if err != nil {
		return nil, s.apiError(err, name.Name, "get")
	}
	return record, nil
}

// GetAt implements rest.PastGetter. It returns 410 Expired for a compacted revision.
func (s *Store) GetAt(ctx context.Context, name types.NamespacedName, revision int64) (*codec.Record, error) {
	record, err := s.Storage.Get(ctx, name, storage.ReadOptions{ResourceVersion: strconv.FormatInt(revision, 10), Exact: true})
	if err != nil {
		return nil, s.apiError(err, name.Name, "get")
	}
	return record, nil
}

// List implements rest.Lister.
func (s *Store) List(ctx context.Context, namespace string, options rest.ListOptions) (*rest.List, error) {
	list, err := s.Storage.List(ctx, namespace, options)
	if err != nil {
		return nil, s.apiError(err, "", "list")
	}
	items := list.Items
	list.Items = func(yield func(*codec.Record, error) bool) {
		for record, err := range items {
			if err != nil {
				err = s.apiError(err, "", "list")
			}
			if !yield(record, err) {
				return
			}
		}
	}
	return list, nil
}

// Watch implements rest.Watcher.
func (s *Store) Watch(ctx context.Context, namespace string, options rest.ListOptions) (rest.Watch, error) {
	w, err := s.Storage.Watch(ctx, namespace, options)
	if err != nil {
		return nil, s.apiError(err, "", "watch")
	}
	return &watch{Watch: w, store: s}, nil
}

// watch converts the errors of a storage watch into API errors.
type watch struct {
	rest.Watch
	store *Store
}

func (w *watch) Next(ctx context.Context) ([]rest.Event, error) {
	events, err := w.Watch.Next(ctx)
	return events, w.apiError(ctx, err)
}

// Poll implements rest.Poller.
func (w *watch) Poll(ctx context.Context, wake func()) ([]rest.Event, error) {
	events, err := rest.Poll(ctx, w.Watch, wake)
	return events, w.apiError(ctx, err)
}

func (w *watch) apiError(ctx context.Context, err error) error {
	if err == nil || err == rest.ErrWatchClosed || err == rest.ErrWouldBlock || ctx.Err() != nil {
		return err
	}
	return w.store.apiError(err, "", "watch")
}

// withLimiter calls work while it holds s.Limiter, unless s.Limiter is nil. It returns the error of work or
// of ctx.
func (s *Store) withLimiter(ctx context.Context, work func() error) error {
	if s.Limiter == nil {
		return work()
	}
	if err := s.Limiter.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("wait for the limiter: %w", err)
	}
	defer s.Limiter.Release(1)
	return work()
}

// SubresourceStore is the REST storage of a subresource that is a part of the stored object, such as /status.
// It reads and updates the same object as the Store, by the rules of another Strategy. Its methods are safe
// for concurrent use.
type SubresourceStore struct {
	// Store is the store of the object. Required.
	Store *Store
	// Subresource is the name of the subresource, such as status. Storage receives it with each
	// write (storage.WriteOptions).
	Subresource string
	// Strategy contains the rules of the subresource. Required.
	Strategy *Strategy
}

var (
	_ rest.Getter  = (*SubresourceStore)(nil)
	_ rest.Updater = (*SubresourceStore)(nil)
)

// Get implements rest.Getter.
func (p *SubresourceStore) Get(ctx context.Context, name types.NamespacedName, options metav1.GetOptions) (*codec.Record, error) {
	return p.Store.Get(ctx, name, options)
}

// Update implements rest.Updater. It never creates an object.
func (p *SubresourceStore) Update(ctx context.Context, name types.NamespacedName, update rest.UpdateFunc, options rest.UpdateOptions) (*codec.Record, bool, error) {
	options.AllowCreate = false
	return p.update(ctx, name, update, options)
}
