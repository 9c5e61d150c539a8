// Package storage stores the objects of one kind under keys: with versions,
// preconditions, guaranteed updates, lists at a revision and watches. It is
// written once, over any kv.Backend. Package cache wraps it in the same
// interface. It knows no HTTP and no rules of any resource.
//
// A write makes one codec.Record, which its writer, watches and the watch cache
// share. Its revision is not known before the commit, so a pendingRecord is
// passed through the backend beside the bytes (kv.Op.Note), and whichever side
// learns of the commit first completes it:
//
//	Store.Create, Update, Delete
//	    │  Op{Key, Value, Note: *pendingRecord}
//	    ▼
//	kv.Backend.Commit ── durable at revision N
//	    │                              │
//	    │ CommitResult{Revision: N}    │ Event{Revision: N, Note}
//	    ▼                              ▼
//	  writer                    cache.Feed, or an uncached watch
//	    │                              │
//	    └─ resolve(N) ─► Record ◄─ resolve(N)
//	                       │
//	       response ◄──────┴──────► watch cache, lists, watches
//
// The record is immutable and remembers its encodings: the object is encoded once,
// not once per reader. Events of other processes, which share an etcd, have no
// Note; their records are decoded from the stored value.
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

// Interface stores the objects of one kind. Decorators such as the watch cache implement it too.
// All methods are safe for concurrent use. Errors for clients are those of errors.go (use
// errors.Is, errors.As); all others come from the backend, the transformer or the conversion. A
// name that cannot be part of a key is an *InvalidOptionError.
type Interface interface {
	// Create stores a new object, or returns ErrExists. It takes ownership of obj.
	Create(ctx context.Context, obj codec.Object, options WriteOptions) (*codec.Record, error)

	// Get returns an object, not older than options.ResourceVersion, or
	// ErrNotFound.
	Get(ctx context.Context, name types.NamespacedName, options ReadOptions) (*codec.Record, error)

	// List returns the objects of a namespace, or of all namespaces if it is empty. The options
	// must have passed ValidateListOptions. Errors may also occur during the iteration.
	List(ctx context.Context, namespace string, options rest.ListOptions) (*rest.List, error)

	// Watch watches the objects of a namespace, or of all, until ctx ends or the
	// watch is closed. The errors of a resourceVersion that is compacted
	// (*ExpiredError) or not reached (*FutureRevisionError) are returned by the
	// first Next, as kube-apiserver sends them in the stream. Without SendInitialEvents, a
	// resourceVersion of "" or "0" begins with the current objects as ADDED.
	// With AllowBookmarks there are bookmarks about once a minute and two seconds
	// before the deadline of ctx.
	Watch(ctx context.Context, namespace string, options rest.ListOptions) (rest.Watch, error)

	// Update is a guaranteed update: it calls update with the current record (nil if there is no
	// object) until the returned object replaces exactly this record. It takes ownership of the
	// object. An object with an unchanged encoding is not written, and the current record is
	// returned. If update returns Remove, the object is deleted. Other errors of update end the
	// call and are returned unchanged. The first call may use a stale record of the cache; its
	// error is ignored, and update is called again with the newest record.
	Update(ctx context.Context, name types.NamespacedName, update UpdateFunc, options UpdateOptions) (*codec.Record, error)

	// Delete removes an object and returns it as it last was, with the revision
	// of the deletion, or returns ErrNotFound or the error of validate. validate
	// may be nil; it may be called more than once, and must not change its
	// argument.
	Delete(ctx context.Context, name types.NamespacedName, validate func(codec.Object) error, options UpdateOptions) (*codec.Record, error)

	// DeleteCorrupt removes an unreadable object and returns the revision of the removal. It skips
	// all other steps of a deletion. It returns ErrNotFound, or a *ReadableError for a readable
	// object.
	DeleteCorrupt(ctx context.Context, name types.NamespacedName, dryRun bool) (int64, error)

	// Prepare creates a write that is committed together with the write of another object, of this
	// or another storage: see WriteOptions.With. It reads nothing; the commit checks the
	// requirements of the request.
	Prepare(ctx context.Context, req OpRequest) (*Op, error)

	// Count returns how many objects there are, in all namespaces.
	Count(ctx context.Context) (int64, error)

	// Cached returns the last known number of objects in memory and the sum of their stored sizes,
	// in bytes; known is false if there is none. It does not access the store and does not block.
	Cached() (objects, bytes int64, known bool)
}

// UpdateFunc returns the object that replaces the current one, which is nil if there is none.
// Records are immutable: it modifies a copy (Record.Object).
type UpdateFunc func(current *codec.Record) (codec.Object, WriteOptions, error)

// Remove is the error by which an UpdateFunc has the object deleted. Last, if not
// nil, is the object that Update then returns.
type Remove struct{ Last codec.Object }

func (Remove) Error() string { return "object is to be removed" }

// WriteOptions govern one write.
type WriteOptions struct {
	// TTL, where positive, is how long after the write the object is removed.
	TTL time.Duration
	// DryRun does everything but the write.
	DryRun bool
	// Subresource is the subresource through which the object is written, such as resize; "" for
	// the object itself. Only some updates of a subresource are subject to quotas.
	Subresource string
	// With are writes of other objects that are committed at the same revision, or not at all;
	// those of storages over another backend are committed before. If one of these objects has
	// changed, the write fails with an *OpConflictError; if the object itself has changed, Update
	// calls its function again, which must return new Ops.
	With []*Op
}

// ReadOptions govern one read.
type ReadOptions struct {
	// ResourceVersion: "" reads the newest, "0" any, such as a cached one, N one
	// that is not older than N.
	ResourceVersion string
	// Exact reads the object as it was at ResourceVersion, which must then be a
	// revision, as resourceVersionMatch=Exact of lists. An *ExpiredError is
	// returned where history does not go back that far.
	Exact bool
}

// UpdateOptions govern an Update or Delete.
type UpdateOptions struct {
	// Preconditions must hold for the current object; otherwise the error is a
	// *PreconditionError.
	Preconditions *metav1.Preconditions
	// DryRun does everything but the write.
	DryRun bool
	// Cached is a record that is likely the newest, such as one from the cache;
	// it saves a read. It may be nil.
	Cached *codec.Record
}

// Spec describes the storage of one kind, which package factory opens.
type Spec struct {
	// Path of the objects below the prefix of all keys: "pods",
	// "services/specs", "example.com/widgets".
	Path       string
	Kind       *codec.Kind
	Namespaced bool
	// Resource names the objects in metrics and errors.
	Resource schema.GroupResource
	// IndexFields are fields of the kind that many lists and watches select one
	// value of.
	IndexFields []string
	// Uncached disables the watch cache, for objects that are read once, and for those that the
	// server follows with a Reflector.
	Uncached bool
	// Observer, where set, is called with each write before it returns. A storage
	// of the same objects that is only read need not have it.
	Observer *Observer
}
