// Package rest defines REST storage. Each verb has a small interface. The interfaces that a storage
// implements determine the served verbs, discovery and documentation. The names are
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

// Storage is a REST storage: a value that implements some of the interfaces below. Methods return
// API errors (apierrors.APIStatus) for errors that a client can act on; other errors result in a
// 500. All methods are safe for concurrent use. Objects have the hub version of their kind.
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
	// GetAt returns the object at a revision within the history.
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
	Create(ctx context.Context, obj codec.Object, validate ValidateObjectFunc, options metav1.CreateOptions) (*codec.Record, error)
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
	Delete(ctx context.Context, name types.NamespacedName, validate ValidateObjectFunc, options metav1.DeleteOptions) (record *codec.Record, now bool, err error)
}

// CorruptDeleter deletes objects that cannot be read, and no others.
type CorruptDeleter interface {
	DeleteCorrupt(ctx context.Context, name types.NamespacedName, options metav1.DeleteOptions) error
}

// CollectionDeleter deletes the objects of a list and returns them. It is not atomic: after an
// error, earlier deletions stay in effect.
type CollectionDeleter interface {
	DeleteCollection(ctx context.Context, namespace string, validate ValidateObjectFunc, options metav1.DeleteOptions, list ListOptions) (*List, error)
}

// Connecter hands a request to a handler of its own: streams, proxies, logs.
type Connecter interface {
	// ConnectOptions parses the options of a connection from the query and from the path after the
	// subresource, which starts with a slash. The result is an object of the resource's Version
	// (for example PodExecOptions), which admission may modify; nil without options. An error is a
	// client error.
	ConnectOptions(query url.Values, tail string) (runtime.Object, error)
	// Connect returns the handler of one request, with the options of ConnectOptions after
	// admission. The handler reports errors with onError.
	Connect(ctx context.Context, name types.NamespacedName, options runtime.Object, onError ErrorWriter) (http.Handler, error)
	// Connection returns the properties that all requests share.
	Connection() Connection
}

// ErrorWriter writes an error as a Status response.
type ErrorWriter func(w http.ResponseWriter, r *http.Request, err error)

// Connection describes the requests of a Connecter.
type Connection struct {
	// Methods are the HTTP methods that are served.
	Methods []string
	// Options is the kind of the options; "" without options.
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
	CreateNamed(ctx context.Context, name types.NamespacedName, obj codec.Object, validate ValidateObjectFunc, options metav1.CreateOptions) (*codec.Record, error)
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

// ValidateObjectFunc runs validating admission on the final object before the write; for deletions, on
// the deleted object. old is nil for creations. The objects must not be modified. A nil
// ValidateObjectFunc accepts all objects.
type ValidateObjectFunc func(ctx context.Context, obj, old codec.Object) error

// UpdateFunc computes the new object from the current one, which is shared and must not be
// modified. current is nil if the object does not exist and the caller of Update permits creation;
// otherwise the storage returns NotFound. The storage takes ownership of the new object.
type UpdateFunc func(ctx context.Context, current codec.Object) (codec.Object, error)

// UpdateOptions govern an Update.
type UpdateOptions struct {
	metav1.UpdateOptions
	// Validate is called before an update, ValidateCreate before a creation.
	Validate, ValidateCreate ValidateObjectFunc
	// AllowCreate permits the creation of a missing object even if the strategy does not
	// (server-side apply).
	AllowCreate bool
	// Preconditions of the current object; nil requires nothing.
	Preconditions *metav1.Preconditions
}

// ListOptions choose the objects of a list or watch.
type ListOptions struct {
	Labels labels.Selector // nil chooses all
	Fields fields.Selector // nil chooses all
	// Namespaces limits a list over all namespaces; nil means no limit.
	Namespaces *request.Namespaces
	// Visibility limits a watch over all namespaces; nil means no limit.
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

// List is the result of a list request: a snapshot of the collection. Items may be iterated once,
// by one goroutine, concurrently with writes.
type List struct {
	// Revision is the revision of the snapshot.
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

// Poller is a Watch with a nonblocking read, so that a waiting watch needs no goroutine.
type Poller interface {
	Watch
	// Poll returns the result of Next if it is available without waiting. Otherwise, it returns no
	// events and no error, and calls wake when a further call may succeed, possibly before Poll
	// returns, and possibly spuriously. wake is called from any goroutine and with locks held; it
	// must neither block nor use the watch, and must be the same function in all calls. The end of
	// ctx is an error, as in Next, and does not call wake.
	Poll(ctx context.Context, wake func()) ([]Event, error)
}

// Poll polls a watch, if it is a Poller.
func Poll(ctx context.Context, w Watch, wake func()) ([]Event, error) {
	if p, ok := w.(Poller); ok {
		return p.Poll(ctx, wake)
	}
	return nil, ErrWouldBlock
}
