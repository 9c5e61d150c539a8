// Package storage keeps objects of one kind under keys: with versions,
// preconditions, guaranteed updates, lists at a revision and watches. It is
// written once, over any kv.Backend. Package cache wraps it in the same
// interface. It knows no HTTP and no rules of any resource.
//
// Imports: codec, request, rest, storage/kv.
package storage

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/rest"
)

// Interface keeps the objects of one kind. It may be decorated: the watch
// cache implements it too. All methods may be called concurrently.
//
// Errors that mean something to a client are those of errors.go (errors.Is,
// errors.As), and everything else is trouble of the backend. Names that cannot
// be part of a key are refused with an *InvalidOptionError.
type Interface interface {
	// Create stores a new object. ErrExists is returned when there is one of
	// that name. The object becomes the storage's.
	Create(ctx context.Context, obj codec.Object, options WriteOptions) (*codec.Record, error)

	// Get returns an object, not older than the revision asked for (see
	// ReadOptions); ErrNotFound when there is none.
	Get(ctx context.Context, name types.NamespacedName, options ReadOptions) (*codec.Record, error)

	// List returns the objects of a namespace, or of all. Its options are
	// taken to have passed ValidateListOptions. Errors may come as late as
	// while the items are run through.
	List(ctx context.Context, namespace string, options rest.ListOptions) (*rest.List, error)

	// Watch follows the objects of a namespace, or of all, until ctx ends or it
	// is closed. That the revision asked for is gone (*ExpiredError) or will
	// not come (*FutureRevisionError) is told by the first Next, as
	// kube-apiserver tells it in the stream. Without SendInitialEvents, a
	// resourceVersion of "" or "0" begins with the current objects as ADDED.
	// AllowBookmarks gives bookmarks about once a minute and two seconds before
	// the deadline of ctx.
	Watch(ctx context.Context, namespace string, options rest.ListOptions) (rest.Watch, error)

	// Update is a guaranteed update: it calls update with the current object
	// (which is update's to change; nil where there is none) until what it
	// returns is stored over just that object. What update returns becomes the
	// storage's. An object that does not differ from the current one is not
	// written, and the current record returned. Where update returns Remove,
	// the object is deleted instead. Other errors of update end the call and
	// are returned as they are.
	//
	// The first call may be given an object that is no longer the newest; an
	// error of update is only believed when its object was.
	Update(ctx context.Context, name types.NamespacedName, update UpdateFunc, options UpdateOptions) (*codec.Record, error)

	// Delete removes an object and returns it as it last was, with the
	// revision of the deletion. validate may refuse; it may be called more
	// than once.
	Delete(ctx context.Context, name types.NamespacedName, validate func(codec.Object) error, options UpdateOptions) (*codec.Record, error)

	// Prepare makes a write that is to be committed with that of another object,
	// of this or another storage over the same backend, or not at all: see
	// WriteOptions.With. It reads nothing: whether the object is what the request
	// requires is found out by the commit.
	Prepare(ctx context.Context, req OpRequest) (*Op, error)

	// Count returns how many objects there are, in all namespaces.
	Count(ctx context.Context) (int64, error)
}

// UpdateFunc makes the new object from the current one.
type UpdateFunc func(current *codec.Record) (codec.Object, WriteOptions, error)

// Remove is returned by an UpdateFunc that wants the object deleted. Last, if
// not nil, is how the object is to be shown as it last was.
type Remove struct{ Last codec.Object }

func (Remove) Error() string { return "object is to be removed" }

// WriteOptions govern one write.
type WriteOptions struct {
	// TTL, where positive, removes the object that long after the write.
	TTL time.Duration
	// DryRun does everything but the write.
	DryRun bool
	// With are writes of other objects that are committed at the same revision as
	// this one, or not at all. Where one of them finds its object changed, an
	// *OpConflictError is returned; where the object itself was, an Update calls
	// its function again, for new ones.
	With []*Op
}

// ReadOptions govern one read.
type ReadOptions struct {
	// ResourceVersion: "" reads the newest, "0" whatever is at hand, N what is
	// not older than N.
	ResourceVersion string
	// Exact reads the object as it was at ResourceVersion, which must then be a
	// revision, as resourceVersionMatch=Exact of lists. An *ExpiredError is
	// returned where history does not go back that far.
	Exact bool
}

// UpdateOptions govern an Update or Delete.
type UpdateOptions struct {
	// Preconditions must hold of the current object.
	Preconditions *metav1.Preconditions
	// DryRun does everything but the write.
	DryRun bool
	// Cached is a record that the caller holds and that is likely the newest;
	// it saves a read. It may be nil.
	Cached *codec.Record
}

// Spec says what a storage is to hold. Whoever keeps objects gives one to the
// server's one factory of storage (package factory) and gets an Interface.
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
	// Uncached leaves the watch cache out: for objects that are read once and
	// then not again, and for those that the server itself follows all the time.
	Uncached bool
	// Observer, where set, learns of writes before whoever wrote does. An
	// uncached storage of the same objects need not have it: it is for writers.
	Observer *Observer
}
