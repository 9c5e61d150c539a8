// Package rest defines what a resource can do: REST storage implements one small
// interface per verb, and which of them it implements decides which verbs are
// served, listed in discovery and documented. The names are
// kube-apiserver's.
package rest

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
)

// Storage is a REST storage: any value that implements some of the interfaces
// below. Its methods return API errors (apierrors.APIStatus) for everything a
// client should know; any other error is answered with 500. All methods may
// be called concurrently. Objects are in the hub version of their kind.
type Storage any

// Getter reads one object.
type Getter interface {
	// Get returns the object. options.ResourceVersion is as on the API concepts
	// page: "" the newest, "0" any, N not older than N. A missing object is a
	// 404.
	Get(ctx context.Context, name types.NamespacedName, options metav1.GetOptions) (*codec.Record, error)
}

// PastGetter is a Getter that also reads an object as it was. It is for faults of tests.
type PastGetter interface {
	// GetAt returns the object as it was at a revision, whose history is kept.
	GetAt(ctx context.Context, name types.NamespacedName, revision int64) (*codec.Record, error)
}

// Lister reads a collection.
type Lister interface {
	// List returns the selected objects of a namespace, or of all where it is
	// empty, in the order of their keys.
	List(ctx context.Context, namespace string, options ListOptions) (*List, error)
}

// Watcher watches a collection.
type Watcher interface {
	// Watch returns a started watch, which the caller must close. Later errors are
	// returned by its Next.
	Watch(ctx context.Context, namespace string, options ListOptions) (Watch, error)
}

// Creater creates objects. The spelling is upstream's.
type Creater interface {
	// Create stores the object, which becomes the storage's, after validate
	// has accepted its final form. A nil record without an error means that the
	// response is a Status of success.
	Create(ctx context.Context, obj codec.Object, validate ValidateObject, options metav1.CreateOptions) (*codec.Record, error)
}

// Updater replaces objects.
type Updater interface {
	// Update stores the object that update returns for the current one. update is
	// called again, with the newer object, after a concurrent write. created
	// reports whether there was no object before.
	Update(ctx context.Context, name types.NamespacedName, update UpdateFunc, options UpdateOptions) (record *codec.Record, created bool, err error)
}

// GracefulDeleter deletes objects, at once or by setting a deletionTimestamp.
type GracefulDeleter interface {
	// Delete returns the object as it last was. now reports whether it was
	// removed, and not just marked for deletion.
	Delete(ctx context.Context, name types.NamespacedName, validate ValidateObject, options metav1.DeleteOptions) (record *codec.Record, now bool, err error)
}

// CorruptDeleter deletes objects that cannot be read, and no others.
type CorruptDeleter interface {
	DeleteCorrupt(ctx context.Context, name types.NamespacedName, options metav1.DeleteOptions) error
}

// CollectionDeleter deletes all objects that a list would return, and returns them.
// It is not atomic: an error leaves earlier deletions in effect.
type CollectionDeleter interface {
	DeleteCollection(ctx context.Context, namespace string, validate ValidateObject, options metav1.DeleteOptions, list ListOptions) (*List, error)
}

// Connecter hands a request to a handler of its own: streams, proxies, logs.
type Connecter interface {
	// ConnectOptions reads the options of a connection from a request's query and
	// from what follows the subresource in the path, from the slash on.
	// They are an object of the resource's Version (PodExecOptions, say), which
	// admission may change; nil where there are none. An error is the client's.
	ConnectOptions(query url.Values, tail string) (runtime.Object, error)
	// Connect returns the handler of one request with the options that admission
	// has left of those of ConnectOptions. The handler answers errors by onError.
	Connect(ctx context.Context, name types.NamespacedName, options runtime.Object, onError ErrorWriter) (http.Handler, error)
	// Connection returns what is the same for all requests.
	Connection() Connection
}

// ErrorWriter answers a request with an error, as a Status.
type ErrorWriter func(w http.ResponseWriter, r *http.Request, err error)

// Connection says how requests come to a Connecter.
type Connection struct {
	// Methods are the HTTP methods that are served.
	Methods []string
	// Options is the kind of the options; "": there are none.
	Options string
	// TakesPath: a path may follow the subresource.
	TakesPath bool
	// LongRunning: a request may last. It is then exempt from deadlines and from
	// the limits of requests in flight, and ends when the server stops.
	LongRunning bool
	// Text: the answer is text that is read, as a log is. Admission, which sees other
	// connections, does not see reads.
	Text bool
}

// NamedCreater creates a subresource of a named object: the create verb of
// subresources such as pods/binding.
type NamedCreater interface {
	// CreateNamed returns the created object. A nil record without an error means
	// that the response is a Status of success.
	CreateNamed(ctx context.Context, name types.NamespacedName, obj codec.Object, validate ValidateObject, options metav1.CreateOptions) (*codec.Record, error)
}

// TableConvertor makes the rows of a Table, which kubectl prints.
type TableConvertor interface {
	// Columns are the columns of every table of this resource.
	Columns() []metav1.TableColumnDefinition
	// Cells returns one row's cells, one for each column, and its conditions.
	// now is the time that ages count from. The object must not be changed.
	Cells(obj codec.Object, now time.Time) ([]any, []metav1.TableRowCondition, error)
}

// Arranger is a TableConvertor that orders the rows of a list.
type Arranger interface {
	TableConvertor
	// Arrange receives the objects of a list with their cells, which it may
	// change, and returns the order of the rows, by index. The objects must not be
	// changed.
	Arrange(list []codec.Object, rows [][]any) (order []int, err error)
}

// ValidateObject is validating admission, called with the final object just
// before it is written (and, for deletions, with the object that goes). old is
// nil for creations. The objects must not be changed. A nil ValidateObject
// accepts everything.
type ValidateObject func(ctx context.Context, obj, old codec.Object) error

// UpdateFunc makes the new object from the current one, which is shared and
// must not be changed. current is nil where the object does not exist and the
// caller of Update allows creation; otherwise the storage answers not found
// itself. The new object becomes the storage's.
type UpdateFunc func(ctx context.Context, current codec.Object) (codec.Object, error)

// UpdateOptions govern an Update.
type UpdateOptions struct {
	metav1.UpdateOptions
	// Validate is called before an update, ValidateCreate before a creation.
	Validate, ValidateCreate ValidateObject
	// AllowCreate lets Update create an object that does not exist, even where
	// the resource's rules would not (server-side apply).
	AllowCreate bool
	// Preconditions must hold of the current object; nil requires nothing.
	Preconditions *metav1.Preconditions
}

// ListOptions choose the objects of a list or watch.
type ListOptions struct {
	Labels labels.Selector // nil chooses all
	Fields fields.Selector // nil chooses all
	// Namespaces limits a list over all namespaces; nil: to nothing.
	Namespaces *request.Namespaces
	// Visibility limits a watch over all namespaces, and changes; nil: nothing does.
	Visibility request.Visibility

	ResourceVersion      string
	ResourceVersionMatch metav1.ResourceVersionMatch

	// Limit and Continue page through a list; Limit 0 is no limit.
	Limit    int64
	Continue string

	// AllowBookmarks, SendInitialEvents and Deadline are a watch's. At the Deadline, if it is
	// not zero, its context ends.
	AllowBookmarks    bool
	SendInitialEvents *bool
	Deadline          time.Time
}

// List is an answer to a list request. It holds a snapshot of the collection:
// Items may be run through while others write, once, and by one goroutine.
type List struct {
	// Revision is what the list is true for.
	Revision int64
	// Items yields the objects in order. An error ends it.
	Items iter.Seq2[*codec.Record, error]
	// Continue and Remaining are set after Items has been run through, where a
	// limit cut the list short. Remaining is nil where it is not known.
	Continue  string
	Remaining *int64
	// Uncached: the records were read for this list, and are in no cache.
	Uncached bool
}

// Event is an event of a watch.
type Event struct {
	// Type is Added, Modified, Deleted or Bookmark; errors are Next's.
	Type watch.EventType
	// Record is the object after the change, or, for a deletion, as it last
	// was, with the deletion's revision. It is nil for a bookmark.
	Record *codec.Record
	// Revision is the resourceVersion of a bookmark.
	Revision int64
	// InitialEventsEnd marks the bookmark that ends the initial events.
	InitialEventsEnd bool
}

// ErrWatchClosed is returned by Watch.Next when the server ends a watch in good
// order: the client should watch again from where it was.
var ErrWatchClosed = errors.New("watch closed")

// ErrWouldBlock is returned by Poller.Poll where only Next can go on, for now or at all.
var ErrWouldBlock = errors.New("the watch would block")

// Watch is a cursor in the changes of a collection. It must not be used
// concurrently.
type Watch interface {
	// Next waits for events and returns some, at least one, in order of
	// revision. The slice is valid until the next call. An error ends the
	// watch: the context's, ErrWatchClosed, or an API error for the client, such as
	// 410 Expired.
	Next(ctx context.Context) ([]Event, error)
	io.Closer
}

// Poller is a Watch that can be asked without waiting, so that it needs no goroutine until
// there are events.
type Poller interface {
	Watch
	// Poll returns what Next would where that need not wait. Where it would have to, there
	// are no events and no error, and wake is called when it is worth asking again, maybe
	// before Poll returns, and maybe in vain: from any goroutine, with locks held, so
	// that it must not wait, nor use the watch. It has to be the same in all calls. The end
	// of ctx, which is an error as that of Next, does not call it.
	Poll(ctx context.Context, wake func()) ([]Event, error)
}

// Poll polls a watch, if it is a Poller.
func Poll(ctx context.Context, w Watch, wake func()) ([]Event, error) {
	if p, ok := w.(Poller); ok {
		return p.Poll(ctx, wake)
	}
	return nil, ErrWouldBlock
}
