// Package rest defines REST storage. Each verb has a small interface. The interfaces that a storage
// implements determine the served verbs, discovery and documentation. The names are the same as in
// kube-apiserver.
//
// Package endpoints calls a storage and passes it callbacks for the request: an UpdateFunc, which makes the
// change and runs mutating admission, and a ValidateObjectFunc, which runs validating admission. The comment of
// package registry describes the order of these calls.
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

// Storage is a REST storage, which implements some of the interfaces below. Methods return API
// errors (apierrors.APIStatus) for errors that a client can act on; other errors result in a 500.
// All methods are safe for concurrent use. Objects are in the hub version of their kind.
type Storage any

// Getter reads one object.
type Getter interface {
	// Get returns the object, or a 404. options.ResourceVersion is as specified on the API concepts
	// page: "" reads the newest state, "0" any state, and N a state that is not older than N. The
	// record is shared and immutable.
	Get(ctx context.Context, name types.NamespacedName, options metav1.GetOptions) (*codec.Record, error)
}

// PastGetter reads old revisions of an object. It is used for fault injection in tests.
type PastGetter interface {
	// GetAt returns the object at a revision, or 410 Expired if the revision is compacted.
	GetAt(ctx context.Context, name types.NamespacedName, revision int64) (*codec.Record, error)
}

// Lister reads a collection.
type Lister interface {
	// List returns the selected objects of a namespace, or of all namespaces if namespace is empty,
	// in the order of their keys.
	List(ctx context.Context, namespace string, options ListOptions) (*List, error)
}

// Watcher watches a collection.
type Watcher interface {
	// Watch starts a watch, which the caller must close. ctx must remain valid until then. Later
	// errors are returned by Watch.Next.
	Watch(ctx context.Context, namespace string, options ListOptions) (Watch, error)
}

// Creater creates objects. The spelling is the same as in kube-apiserver.
type Creater interface {
	// Create stores obj after validate has accepted its final form. The storage takes ownership of
	// obj. If both results are nil, the response is a Status that reports success.
	Create(ctx context.Context, obj codec.Object, validate ValidateObjectFunc, options metav1.CreateOptions) (*codec.Record, error)
}

// Updater replaces objects.
type Updater interface {
	// Update stores the object that update returns for the current one. After a concurrent write,
	// it calls update again with the newer object. created reports whether the object was created.
	Update(ctx context.Context, name types.NamespacedName, update UpdateFunc, options UpdateOptions) (record *codec.Record, created bool, err error)
}

// GracefulDeleter deletes objects, at once or by setting a deletionTimestamp.
type GracefulDeleter interface {
	// Delete returns the last state of the object. now reports whether the object was removed; if
	// not, it was marked for deletion.
	Delete(ctx context.Context, name types.NamespacedName, validate ValidateObjectFunc, options metav1.DeleteOptions) (record *codec.Record, now bool, err error)
}

// CorruptDeleter deletes objects that cannot be decoded.
type CorruptDeleter interface {
	// DeleteCorrupt deletes the object. It returns an error if the object can be decoded.
	DeleteCorrupt(ctx context.Context, name types.NamespacedName, options metav1.DeleteOptions) error
}

// CollectionDeleter deletes the objects of a list and returns them. It is not atomic: after an
// error, the objects that were already deleted stay deleted.
type CollectionDeleter interface {
	DeleteCollection(ctx context.Context, namespace string, validate ValidateObjectFunc, options metav1.DeleteOptions, list ListOptions) (*List, error)
}

// Connecter serves requests with an http.Handler, for example for streams, proxies and logs.
type Connecter interface {
	// ConnectOptions parses the options of a connection from the query and from the path after the
	// subresource, which starts with a slash. The result is an object of the resource's Version
	// (for example PodExecOptions), which admission may modify, or nil if the resource has no
	// options. An error means that the request is invalid.
	ConnectOptions(query url.Values, tail string) (runtime.Object, error)
	// Connect returns the handler for one request. options is the result of ConnectOptions after
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
	// Options is the kind of the options, or "" if there are none.
	Options string
	// AllowsPath reports whether a path may follow the subresource.
	AllowsPath bool
	// LongRunning reports whether the client determines the duration of a request. Such a request
	// is exempt from deadlines and from the limits of requests in flight, and ends when the server
	// stops.
	LongRunning bool
	// Text reports whether the response is text, such as a log. Such a request is a read, so
	// admission does not apply to it, unlike to other connections.
	Text bool
}

// NamedCreater creates a subresource of a named object. It implements the verb create for
// subresources such as pods/binding.
type NamedCreater interface {
	// CreateNamed returns the created object. If both results are nil, the response is a Status
	// that reports success.
	CreateNamed(ctx context.Context, name types.NamespacedName, obj codec.Object, validate ValidateObjectFunc, options metav1.CreateOptions) (*codec.Record, error)
}

// TableConvertor converts objects to the rows of a Table, which kubectl prints. It is safe for
// concurrent use.
type TableConvertor interface {
	// Columns returns the columns of all tables of the resource. The slice is shared and must not be
	// modified.
	Columns() []metav1.TableColumnDefinition
	// Cells returns the cells of a row, one per column, and the conditions of the row. Ages are
	// relative to now. Cells must not modify the object.
	Cells(obj codec.Object, now time.Time) ([]any, []metav1.TableRowCondition, error)
}

// RowSorter is a TableConvertor that sorts the rows of a list.
type RowSorter interface {
	TableConvertor
	// SortRows returns the order of the rows, as indexes of list. rows contains the cells of the objects.
	// SortRows may modify rows, but not the objects.
	SortRows(list []codec.Object, rows [][]any) (order []int, err error)
}

// ValidateObjectFunc runs validating admission for a request, and returns an error to reject the
// write. admission.Chain creates it, endpoints passes it to the storage, and the storage calls it
// on the final object directly before the write. For a creation, old is nil. For a deletion, obj is
// nil and old is the object to delete. The function must not modify the objects. The storage calls
// it again if it retries the write after a conflict, and once for each object when it deletes a
// collection. A nil ValidateObjectFunc accepts all objects.
type ValidateObjectFunc func(ctx context.Context, obj, old codec.Object) error

// UpdateFunc computes the new object from the current one, including mutating admission. current is
// shared and must not be modified. It is nil if the object does not exist and the caller of Update
// permits creation; otherwise the storage returns NotFound. The storage takes ownership of the
// result, returns an error unchanged, and calls the function again after a conflict.
type UpdateFunc func(ctx context.Context, current codec.Object) (codec.Object, error)

// UpdateOptions are the options of an update.
type UpdateOptions struct {
	metav1.UpdateOptions
	// Validate is called before an update, ValidateCreate before a creation. Each may be nil.
	Validate, ValidateCreate ValidateObjectFunc
	// AllowCreate permits the creation of a missing object even if the strategy does not.
	// Server-side apply sets it.
	AllowCreate bool
	// Preconditions must hold for the current object; nil means that there are none.
	Preconditions *metav1.Preconditions
}

// ListOptions are the options of a list or watch. The zero value lists all objects at the newest
// revision.
type ListOptions struct {
	Labels labels.Selector // nil selects all objects
	Fields fields.Selector // nil selects all objects
	// Namespaces limits a list of all namespaces; nil means no limit.
	Namespaces *request.Namespaces
	// Visibility limits a watch of all namespaces; nil means no limit.
	Visibility request.Visibility

	ResourceVersion      string
	ResourceVersionMatch metav1.ResourceVersionMatch

	// Limit is the maximum number of objects in a page, or 0 for no limit. Continue is the token
	// from the previous page.
	Limit    int64
	Continue string

	// AllowBookmarks, SendInitialEvents and Deadline apply to watches. Deadline is the time at which
	// the context of the watch ends; the zero time means never.
	AllowBookmarks    bool
	SendInitialEvents *bool
	Deadline          time.Time
}

// List is the result of a list request. It is a snapshot of the collection. Items may be iterated
// once, by one goroutine, concurrently with writes.
type List struct {
	// Revision is the revision of the snapshot.
	Revision int64
	// Items yields the objects in order. An error ends the sequence.
	Items iter.Seq2[*codec.Record, error]
	// Continue and Remaining are set once Items has been iterated, if the limit ended the page.
	// Remaining is the number of objects after the page, or nil if it is unknown.
	Continue  string
	Remaining *int64
	// Uncached reports whether the records were read for this list and are not in a cache.
	Uncached bool
}

// Event is an event of a watch. The record is shared and must not be modified.
type Event struct {
	// Type is Added, Modified, Deleted or Bookmark. Errors are not events; Next returns them.
	Type watch.EventType
	// Record is the object after the change; for a deletion, its last state with the revision of
	// the deletion; nil for a bookmark.
	Record *codec.Record
	// Revision is the resourceVersion of a bookmark.
	Revision int64
	// InitialEventsEnd reports whether the bookmark ends the initial events.
	InitialEventsEnd bool
}

// ErrWatchClosed is returned by Watch.Next when the server ends a watch without losing events. The
// client can resume from its last revision.
var ErrWatchClosed = errors.New("watch closed")

// ErrWouldBlock is returned by Poller.Poll if only Next can read the next events, temporarily or
// for the rest of the watch.
var ErrWouldBlock = errors.New("the watch would block")

// Watch is a cursor over the changes of a collection. It is not safe for concurrent use.
type Watch interface {
	// Next blocks until there are events, and returns at least one, in order of revision. The slice is valid
	// until the next call. An error ends the watch. It is the error of ctx, ErrWatchClosed, or an API error for
	// the client, such as 410 Expired.
	Next(ctx context.Context) ([]Event, error)
	io.Closer
}

// Poller is a Watch with a nonblocking read, so that a waiting watch needs no goroutine.
type Poller interface {
	Watch
	// Poll returns the result of Next if it is available without waiting. Otherwise, it returns no events and
	// no error, and calls wake when another call may succeed, possibly before Poll returns, and possibly
	// spuriously. wake is called from any goroutine and with locks held; it must neither block nor use the
	// watch, and must be the same function in all calls. If ctx has ended, Poll returns its error, like Next.
	// The end of ctx does not call wake.
	Poll(ctx context.Context, wake func()) ([]Event, error)
}

// Poll calls w.Poll if w is a Poller, and otherwise returns ErrWouldBlock.
func Poll(ctx context.Context, w Watch, wake func()) ([]Event, error) {
	if p, ok := w.(Poller); ok {
		return p.Poll(ctx, wake)
	}
	return nil, ErrWouldBlock
}
