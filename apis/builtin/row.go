// Package builtin declares the resources that Kubernetes itself defines. A
// resource is a row: its names, its scope and what it does differently from
// all others. Everything about an API group is in the folder of that group;
// this package turns rows into REST storage. It serves nothing itself.
//
// Imports: apis/builtin/validation, authorizer, codec, feature, registry,
// request, rest, storage.
package builtin

import (
	"context"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/apis/builtin/validation"
	"mainstay.dev/mainstay/authorizer"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/feature"
	"mainstay.dev/mainstay/registry"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/storage"
)

// Group is one version of an API group.
type Group struct {
	GroupVersion schema.GroupVersion
	Resources    []Entry
}

// Entry is a row, or anything else that a group serves.
type Entry interface {
	// build makes the resource and its subresources.
	build(env *Env, gv schema.GroupVersion) []*rest.Resource
}

// Env is what rows need of the server they are served by.
type Env struct {
	// Storage opens the storage of a kind; nil: resources are described, and
	// keep nothing.
	Storage func(storage.Spec) (storage.Interface, error)
	// Shared says that kube-apiserver may read, and write, the same storage.
	Shared bool
	// Gates are the feature gates that are on.
	Gates feature.Gates
	// DenyPrivileged refuses pods whose containers are privileged.
	DenyPrivileged bool
	// EventTTL is how long events are kept.
	EventTTL time.Duration
	// Limiter limits how many objects of Expensive rows are validated at a time;
	// nil is no limit.
	Limiter registry.Limiter
	// StorageHealth tells whether the storage works; nil: nobody knows.
	StorageHealth func(ctx context.Context) error

	// The following answer reviews. They are required where the groups of
	// reviews are served, and are called when a review comes in.

	// Authorizer decides what access reviews ask.
	Authorizer authorizer.Authorizer
	// AuthenticateToken returns whose token it is and for which of the wanted
	// audiences it is good; none wanted means the server's own. It is nil where
	// the token is nobody's; err may then say why.
	AuthenticateToken func(ctx context.Context, token string, audiences []string) (*request.Authentication, error)
	// Rules lists what a user may do in a namespace, as far as that can be
	// listed.
	Rules func(ctx context.Context, user *request.User, namespace string) authorizationv1.SubjectRulesReviewStatus

	// Filled by Build.
	stores map[schema.GroupResource]*registry.Store
	specs  map[schema.GroupResource]storage.Spec
	paths  map[string]bool
	errs   []error // of Storage
	// validator runs the rules of all rows.
	validator *validation.Validator
}

// Operation is the write that a hook of a row takes part in.
type Operation struct {
	// Context is the request's.
	Context context.Context
	// Env is that of the control plane that is written to.
	Env *Env
	// DryRun: nothing is written. It is known to Begin alone.
	DryRun bool
}

// Store finds the store of a resource that was built with the same Env; nil
// where there is none. It is for those that serve requests: while resources
// are being built, some are still missing.
func (env *Env) Store(resource schema.GroupResource) *registry.Store { return env.stores[resource] }

// Spec returns what the storage of a row was opened with, the zero Spec where
// there is no such row.
func (env *Env) Spec(resource schema.GroupResource) storage.Spec { return env.specs[resource] }

// Keeps tells whether objects of a row are stored under a path below the storage
// prefix.
func (env *Env) Keeps(path string) bool { return env.paths[path] }

// Row declares one kind of object that is stored, with T its type in the hub
// version. The zero value of each field is the common case. Functions may
// change the object they are given, never the old one.
type Row[T any] struct {
	// Name is the plural, Kind the kind; the singular is the kind in lower case.
	Name, Kind string
	ShortNames []string
	Categories []string
	Namespaced bool

	// StoragePath is the path of the objects below the storage prefix, where
	// it is not the name.
	StoragePath string
	// StorageVersion is the version that objects are encoded in, where that is
	// not the group's own. Both must have the same protobuf message.
	StorageVersion schema.GroupVersion
	// StoredAlso are versions that objects may be stored in, by others or in
	// the past, and that are not served.
	StoredAlso []*codec.Version
	// StoredShared is the one of StoredAlso that objects are encoded in where
	// kube-apiserver may have the same storage: what it writes itself.
	StoredShared *codec.Version
	// StoredAsJSON is as in codec.Kind.
	StoredAsJSON bool
	// HashedAs is the version that the storageVersionHash is made of, where
	// that is not the one that objects are encoded in.
	HashedAs schema.GroupVersion

	// Status says that the type has a Status that is written through /status
	// alone. It is cleared on creation, kept on update; a write to /status
	// keeps the rest, except for metadata. StatusOnCreate lets a creation set
	// it all the same.
	Status, StatusOnCreate bool
	// Generation keeps metadata.generation: 1 at first and one more with each
	// change of Spec, or of what SpecChanged compares.
	Generation  bool
	SpecChanged func(obj, old *T) bool

	// CreateOnUpdate lets PUT create. RequireResourceVersion refuses a PUT
	// without one. ReturnDeleted answers a deletion with the object instead of
	// a Status. AnyFinalizer accepts finalizers without a domain, with a warning.
	// Without withholds verbs.
	CreateOnUpdate, RequireResourceVersion, ReturnDeleted bool
	AnyFinalizer                                          bool
	Without                                               []string
	// Warning is told to everyone who uses the resource.
	Warning string

	// Expensive says that to validate an object takes milliseconds: it is done under
	// Env.Limiter.
	Expensive bool
	// ValidateName checks names; nil accepts DNS subdomains.
	ValidateName func(name string, prefix bool) []string
	// Default fills what a client may leave out, on decoding and on reading.
	Default func(obj *T)

	// Prepare completes an object that is to be new, and PrepareUpdate one that
	// is to replace old: what a client may not set, or can leave out.
	Prepare       func(op *Operation, obj *T)
	PrepareUpdate func(op *Operation, obj, old *T)
	// Validate reports what is wrong with an object, metadata aside: a new one,
	// where old is nil, and one that is to replace old. Neither may be changed.
	Validate func(f validation.Field, obj, old *T)
	// Permit and PermitStatus report what the writer may not set, valid as it is: that
	// depends on other objects, or on the authorizer. They run before Validate and
	// ValidateStatus.
	Permit, PermitStatus func(op *Operation, f validation.Field, obj, old *T)
	// Warnings returns what the client should know of an object that is stored
	// all the same. old is nil on creation.
	Warnings func(op *Operation, obj, old *T) []string

	// StatusKeeps names what a write to /status leaves as it is besides all
	// that is neither metadata nor status: "metadata" (labels, annotations,
	// finalizers and owners), "metadata.labels" or "metadata.ownerReferences".
	StatusKeeps []string
	// Resets and StatusResets are the dotted paths of what else a write to the
	// resource, or to /status, leaves as it is; the functions see to that.
	Resets, StatusResets []string
	// PrepareStatus and ValidateStatus are for writes to /status.
	PrepareStatus  func(op *Operation, obj, old *T)
	ValidateStatus func(f validation.Field, obj, old *T)

	// GracePeriod, Held and OnMark are as in registry.Strategy.
	GracePeriod     func(obj *T, asked *int64) int64
	Held            func(obj *T) bool
	OnMark          func(obj *T)
	OrphanByDefault bool
	// NoDependents says that the kind owns nothing: what a deletion says of
	// dependents is ignored.
	NoDependents bool
	// OrphanWarning is told to who deletes without saying what is to become of
	// dependents.
	OrphanWarning string
	// Begin is called when an object is about to be written, after validation: see
	// registry.Begin. obj is nil where the object goes, old on creation.
	Begin func(op *Operation, obj, old *T) (registry.Transaction, error)
	// TTL returns how long an object lives after each write.
	TTL func(env *Env, obj *T) time.Duration

	// SelectableFields are the keys of field selectors besides metadata.name
	// and metadata.namespace; Fields returns their values.
	SelectableFields []string
	Fields           func(obj *T) fields.Set
	// FieldLabel translates the keys of field selectors, where SelectableFields
	// do not say which there are, or their refusal has words of its own.
	FieldLabel func(label, value string) (string, string, error)
	// IndexFields are those of SelectableFields that many watches choose one
	// value of.
	IndexFields []string
	// Columns are the table's; nil shows name and age.
	Columns *Columns[T]

	// Also are other versions that the kind is served in.
	Also []Also
	// Subresources besides status.
	Subresources []Subresource
}

// Also is another version in which a kind is served.
type Also struct {
	Version *codec.Version
	// FieldLabel translates the keys of field selectors; nil takes the row's.
	FieldLabel func(label, value string) (string, string, error)
}
