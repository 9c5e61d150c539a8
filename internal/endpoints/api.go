// Package endpoints implements the HTTP verbs of REST storage. Each verb has a file; other files decode
// options and bodies, and encode responses and errors. Package route selects the resource of a request, and
// the storage determines the supported verbs. For a write, an operation runs mutating admission and passes
// validating admission to the storage; the comment of package registry shows the sequence.
package endpoints

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/endpoints/apply"
	"mainstay.dev/mainstay/internal/endpoints/apply/ownership"
	"mainstay.dev/mainstay/internal/limits/memory"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
)

// Limits of client input.
const (
	// DefaultMaxBodyBytes is the maximum size of a request body, in bytes, as in kube-apiserver.
	DefaultMaxBodyBytes = 3 << 20
	// maxJSONPatchOperations is the maximum number of operations of a JSON patch.
	maxJSONPatchOperations = 10000
)

// Config configures an API. The zero value is valid: it disables admission, managed fields and
// metrics, and authorizes every creation.
type Config struct {
	// Admission modifies and validates every write.
	Admission admission.Chain
	// AdmissionMetrics records admission latency; nil disables it.
	AdmissionMetrics *admission.Metrics
	// Authorizer checks the permission to create if an update or patch does not find its object;
	// nil permits it.
	Authorizer authorizer.Authorizer
	// Equivalents returns the other resources that serve the same objects, for admission. The result may be
	// nil.
	Equivalents func(*rest.Resource) []*rest.Resource
	// TypeConverter contains the merge schemas of all kinds, for server-side apply and managed
	// fields; nil disables managed fields.
	TypeConverter managedfields.TypeConverter
	// Ownership caches managed fields and the plans of types. APIs with the same TypeConverter can share
	// it. nil selects a new cache.
	Ownership *ownership.Cache
	// MaxBodyBytes is the maximum size of a request body; 0 means DefaultMaxBodyBytes.
	MaxBodyBytes int64
	// Memory limits the total memory of large bodies; nil means no limit.
	Memory *memory.Budget
	// MinWatchTimeout is the minimum duration of a watch without timeoutSeconds; the maximum is twice
	// as long. 0 means 30 minutes.
	MinWatchTimeout time.Duration
	// OnWatchEvents is called with the number and size of sent events; may be nil.
	OnWatchEvents func(resource *rest.Resource, events, bytes int)
	// OnDeprecated is called for requests of deprecated APIs, with the release that removes them,
	// if known; may be nil.
	OnDeprecated func(info *request.Info, removedRelease string)
	// ControllerRuns reports whether a controller that completes deletions is running. name is the name of
	// the controller in kube-controller-manager. Clients receive a warning if the controller is not running.
	// A nil ControllerRuns disables the warnings.
	ControllerRuns func(ctx context.Context, name string) bool
	// UnsafeDeletion permits users with the verb unsafe-delete-ignore-read-errors to delete
	// unreadable objects (AllowUnsafeMalformedObjectDeletion).
	UnsafeDeletion bool
	// Simulation is the clock for the times of managed fields; nil means the real clock.
	Simulation *simulation.Simulation
	// Logger receives requests that fail with a 500; nil discards them.
	Logger *slog.Logger
	// Restore returns the identity (UID and creation timestamp) of an object at a revision. A creation with
	// the query parameter restoreFrom keeps this identity. The error is an API error. A nil Restore rejects
	// such creations.
	Restore func(ctx context.Context, resource schema.GroupResource, name types.NamespacedName, revision string) (*request.Restored, error)
}

// API serves requests for resources. It is safe for concurrent use.
type API struct {
	config   Config
	managers apply.Managers
}

// New returns an API that is ready for use. It starts no goroutines and retains config.
func New(config Config) *API {
	if config.MaxBodyBytes == 0 {
		config.MaxBodyBytes = DefaultMaxBodyBytes
	}
	if config.MinWatchTimeout == 0 {
		config.MinWatchTimeout = 30 * time.Minute
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	managers := apply.NewManagers(config.TypeConverter, config.Ownership)
	managers.Logger, managers.Simulation = config.Logger, config.Simulation
	return &API{config: config, managers: managers}
}

// call is an HTTP request for a resource.
type call struct {
	operation
	w http.ResponseWriter
	r *http.Request
	// reserved is the memory reserved for the request's body or a list in memory.
	reserved memory.Reservation
}

// Serve serves a request for a resource, and writes errors as a Status. The context of the request
// must have a request.Info. The fields of resource must not change afterwards. Serve blocks until
// the response is complete or a watch has been detached from the handler's goroutine.
func (a *API) Serve(w http.ResponseWriter, r *http.Request, resource *rest.Resource) {
	c := a.newCall(w, r, resource)
	defer c.reserved.Release()
	if err := c.respond(); err != nil {
		a.WriteError(w, r, err)
	}
}

func (a *API) newCall(w http.ResponseWriter, r *http.Request, resource *rest.Resource) *call {
	return &call{
		operation: operation{api: a, resource: resource, info: request.InfoFrom(r.Context()), authorizer: a.config.Authorizer},
		w:         w, r: r, reserved: a.config.Memory.NewReservation(),
	}
}

// ReadOnly returns a handler that passes GET and HEAD requests to handler, and rejects other
// methods with a 405 Status.
func (a *API) ReadOnly(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			a.WriteError(w, r, methodNotAllowed())
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// WriteNotFound responds with the 404 Status of kube-apiserver for an unknown resource.
func (a *API) WriteNotFound(w http.ResponseWriter, r *http.Request) {
	a.WriteError(w, r, notFoundResource())
}

func (c *call) respond() error {
	if requestsExplanation(c.r) {
		return c.explain()
	}
	return c.serve()
}

func (c *call) serve() error {
	handle, err := c.handle()
	if err != nil {
		return err
	}
	return handle()
}

// handle returns the handler of the request, or an error.
func (c *call) handle() (func() error, error) {
	if strings.ContainsRune(c.info.Namespace+c.info.Name, 0) {
		return nil, apierrors.NewBadRequest("Name parameter invalid: may not contain a zero byte")
	}
	if c.info.NameInPath {
		if problems := path.IsValidPathSegmentName(c.info.Name); len(problems) > 0 {
			return nil, apierrors.NewBadRequest("Name parameter invalid: " + quoteProblem(c.info.Name, problems[0]))
		}
	}
	if connecter, ok := c.resource.Storage.(rest.Connecter); ok {
		if c.info.Unroutable || !c.info.NameInPath {
			return nil, notFoundResource() // see request.Info.Unroutable
		}
		return func() error { return c.connect(connecter) }, nil
	}
	if c.info.Tail != "" {
		return nil, notFoundResource()
	}
	handle := c.handler()
	if handle == nil {
		return nil, methodNotAllowed()
	}
	if c.resource.Warning != "" {
		request.AddWarning(c.r.Context(), c.resource.Warning)
		c.recordDeprecated()
	}
	return handle, nil
}

// recordDeprecated records the use of a deprecated API in the audit event and in metrics. The
// request continues if the event is full.
func (c *call) recordDeprecated() {
	if c.api.config.OnDeprecated != nil {
		c.api.config.OnDeprecated(c.info, c.resource.RemovedRelease)
	}
	_ = request.Annotate(c.r.Context(), "k8s.io/deprecated", "true")
	if c.resource.RemovedRelease != "" {
		_ = request.Annotate(c.r.Context(), "k8s.io/removed-release", c.resource.RemovedRelease)
	}
}

// handler returns the handler for the verb and the form of the path, or nil if the resource does not
// have the verb.
func (c *call) handler() func() error {
	// As in kube-apiserver, HEAD is a method of custom resources only.
	if c.r.Method == http.MethodHead && !c.resource.Custom || slices.Contains(c.resource.WithoutVerbs, c.info.Verb) {
		return nil
	}
	storage, item := c.resource.Storage, c.info.NameInPath
	needsNamespace := c.resource.Namespaced && c.info.Namespace == ""
	switch c.info.Verb {
	case "get":
		if s, ok := storage.(rest.Getter); ok && item {
			return func() error { return c.get(s) }
		}
	case "list":
		if s, ok := storage.(rest.Lister); ok && !item {
			return func() error { return c.list(s) }
		}
	case "watch":
		if s, ok := storage.(rest.Watcher); ok && c.r.Method == http.MethodGet {
			return func() error { return c.watch(s) }
		}
	case "create":
		return c.createHandler(storage, item, needsNamespace)
	case "update":
		if s, ok := storage.(rest.Updater); ok && item {
			return func() error { return c.update(s) }
		}
	case "patch":
		s, updates := storage.(rest.Updater)
		if _, gets := storage.(rest.Getter); updates && gets && item {
			return func() error { return c.patch(s) }
		}
	case "delete":
		if s, ok := storage.(rest.GracefulDeleter); ok && item {
			return func() error { return c.delete(s) }
		}
	case "deletecollection":
		if s, ok := storage.(rest.CollectionDeleter); ok && !item && !needsNamespace {
			return func() error { return c.deleteCollection(s) }
		}
	}
	return nil
}

func (c *call) createHandler(storage rest.Storage, item, needsNamespace bool) func() error {
	if s, ok := storage.(rest.NamedCreater); ok && item {
		return func() error { return c.createNamed(s) }
	}
	if s, ok := storage.(rest.Creater); ok && !item && !needsNamespace {
		return func() error { return c.create(s) }
	}
	return nil
}

func quoteProblem(name, problem string) string { return `"` + name + `": ` + problem }
