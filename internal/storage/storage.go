// Package storage stores the objects of one kind under keys. It supports versions, preconditions, guaranteed
// updates, lists at a revision, and watches. A Store implements Interface over a kv.Backend, and package
// cache decorates a Store with the same Interface. The package does not depend on HTTP or on the rules of a
// resource.
//
// # Writes
//
// A write creates one codec.Record, which the writer, the watches and the watch cache share. The revision of
// the record is not known before the commit. The write therefore passes an uncommittedRecord through the
// backend (kv.Op.Note), and the first receiver creates the record:
//
//	Store.Create, Update, Delete
//	    │  Op{Key, Value, Note: *uncommittedRecord}
//	    ▼
//	kv.Backend.Commit ── durable at revision N
//	    │                              │
//	    │ CommitResult{Revision: N}    │ Event{Revision: N, Note}
//	    ▼                              ▼
//	  writer                    cache.Feed, or a watch without a cache
//	    │                              │
//	    └─ resolve(N) ─► Record ◄─ resolve(N)
//	                       │
//	       response ◄──────┴──────► watch cache, lists, watches
//
// The record is immutable and caches its encodings: the object is encoded once, not once per reader. Events
// from other processes that use the same etcd have no Note; the records of these events are decoded from the
// stored value.
//
// # Watches
//
// When a watch is opened, calls go in one direction only: OpenWatch calls a WatchReader, which is a Cacher or
// a Store; a Cacher calls its Store; a Store calls the backend.
//
//	Store.Watch                 Cacher.Watch
//	    │                           │
//	    ▼                           ▼
//	OpenWatch(Store)            OpenWatch(Cacher)        returns a cursor over a ChangeStream
//	    │                           │
//	    │                           │ ListPlanned, Changes: the snapshot and the shared log
//	    │                           │ of the cache
//	    │                           ▼
//	    └───────────► Store ◄───────┘ if the cache does not have the revision
//	                    │ ListPlanned, Changes
//	                    ▼
//	                kv.Backend: Range, Watch
package storage

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// Interface stores the objects of one kind. Store and its decorators, such as the watch cache, implement it.
// All methods are safe for concurrent use, and block on I/O unless they state otherwise. The errors that
// clients receive are declared in errors.go; check for them with errors.Is and errors.As. Other errors come
// from the backend, the transformer or the conversion. The error for a name that cannot be part of a key is
// an *InvalidOptionError. Returned records are immutable and shared.
type Interface interface {
	// Create stores a new object. If the object exists, the error wraps ErrExists. Create takes ownership of
	// obj.
	Create(ctx context.Context, obj codec.Object, options WriteOptions) (*codec.Record, error)

	// Get returns the named object at a revision that the options allow, or an error that wraps ErrNotFound.
	Get(ctx context.Context, name types.NamespacedName, options ReadOptions) (*codec.Record, error)

	// List returns the objects of a namespace, or of all namespaces if namespace is empty. The options must
	// have passed ValidateListOptions. Errors may also occur during the iteration.
	List(ctx context.Context, namespace string, options rest.ListOptions) (*rest.List, error)

	// Watch watches the objects of a namespace, or of all namespaces if namespace is empty, until ctx ends or
	// the watch is closed. If the resourceVersion has been compacted or has not been reached yet, the first
	// Next returns an *ExpiredError or a *FutureRevisionError, because kube-apiserver sends these errors in
	// the stream. Without SendInitialEvents, a watch from resourceVersion "" or "0" starts with the current
	// objects as ADDED. AllowBookmarks adds bookmarks about once a minute, and one bookmark two seconds
	// before options.Deadline.
	Watch(ctx context.Context, namespace string, options rest.ListOptions) (rest.Watch, error)

	// Update is a guaranteed update. It calls update with the current record (nil if the object does not
	// exist) until the object that update returns replaces exactly that record. The storage takes ownership
	// of the returned object. An object with an unchanged encoding is not written, and the current record is
	// returned. If update returns a Remove error, the object is deleted. Any other error of update is
	// returned unchanged. The first call of update may receive a stale cached record. If this call returns an
	// error, the error is ignored and update is called again with the newest record.
	Update(ctx context.Context, name types.NamespacedName, update UpdateFunc, options UpdateOptions) (*codec.Record, error)

	// Delete removes an object and returns its last state with the revision of the deletion. The
	// error wraps ErrNotFound, or is the error of validate. validate may be nil; it may be called
	// more than once, and must not modify its argument.
	Delete(ctx context.Context, name types.NamespacedName, validate func(codec.Object) error, options UpdateOptions) (*codec.Record, error)

	// DeleteCorrupt removes an unreadable object and returns the revision of the removal. It skips
	// all other steps of a deletion. The error wraps ErrNotFound, or is a *ReadableError if the
	// object is readable.
	DeleteCorrupt(ctx context.Context, name types.NamespacedName, dryRun bool) (int64, error)

	// Prepare returns a write that is committed together with the write of another object, of this
	// or another storage: see WriteOptions.With. It does not read the store; the commit checks the
	// conditions of the request.
	Prepare(ctx context.Context, req OpRequest) (*Op, error)

	// Count returns the number of objects in all namespaces.
	Count(ctx context.Context) (int64, error)

	// Cached returns the last known number of objects in memory and the sum of their stored sizes, in bytes.
	// known is false if the storage has no cache or the cache was never loaded. Cached does not access the
	// store and does not block.
	Cached() (objects, bytes int64, known bool)
}

// UpdateFunc returns the object that replaces the current one. current is nil if there is no object.
// Records are immutable: the function modifies a copy (Record.Object). It may be called more than
// once.
type UpdateFunc func(current *codec.Record) (codec.Object, WriteOptions, error)

// Remove is an error that an UpdateFunc returns to delete the object. Last, if not nil, is the object
// that Update returns; otherwise Update returns the last record.
type Remove struct{ Last codec.Object }

func (Remove) Error() string { return "object is to be removed" }

// WriteOptions govern one write.
type WriteOptions struct {
	// TTL is the time after which the object is removed; 0 means never.
	TTL time.Duration
	// DryRun performs all checks but writes nothing.
	DryRun bool
	// Subresource is the subresource through which the object is written, such as resize; "" for the object
	// itself. Quotas apply only to some updates of subresources.
	Subresource string
	// With contains writes of other objects that are committed in the same transaction. Writes to other
	// backends are committed before this transaction. If one of these other objects has changed, the write
	// fails with an *OpConflictError. If the updated object itself has changed, Update calls its UpdateFunc
	// again, which must return new Ops.
	With []*Op
}

// ReadOptions govern one read.
type ReadOptions struct {
	// ResourceVersion is a lower bound: "" requires the newest revision, "0" allows any revision, such
	// as a cached one, and N requires revision N or a later one.
	ResourceVersion string
	// Exact reads the object as it was at ResourceVersion, which must be a positive revision, like
	// resourceVersionMatch=Exact of lists. The error is an *ExpiredError if the revision is
	// compacted.
	Exact bool
}

// UpdateOptions govern an Update or Delete.
type UpdateOptions struct {
	// Preconditions must hold for the current object; otherwise the error is a
	// *PreconditionError.
	Preconditions *metav1.Preconditions
	// DryRun performs all checks but writes nothing.
	DryRun bool
	// Cached is a record of the object that is probably the newest one. It saves a read. It may be nil or
	// outdated.
	Cached *codec.Record
}

// Spec describes the storage of one kind, which package factory opens.
type Spec struct {
	// Path is the part of the objects' keys between the global key prefix and the namespace or name, such as
	// "pods", "services/specs" or "example.com/widgets".
	Path       string
	Kind       *codec.Kind
	Namespaced bool
	// Resource names the objects in metrics and errors.
	Resource schema.GroupResource
	// IndexFields are the names of fields whose values many lists and watches require in their field
	// selectors; see cache.Config.
	IndexFields []string
	// Uncached disables the watch cache, for objects that are read once, and for objects that the
	// server follows with a Reflector.
	Uncached bool
	// Observer is notified of each write before the write returns. It may be nil. A second storage of the
	// same objects needs no Observer if it is used only for reads.
	Observer *Observer
}
