// Package builtin declares the resources that Kubernetes itself defines. A
// resource is a row: its names, its scope and what it does differently from
// all others. Everything about an API group is in the folder of that group;
// this package turns rows into REST storage. It serves nothing itself.
package builtin

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/authorizer"
	celtyped "mainstay.dev/mainstay/internal/cel/typed"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/kubelet"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/serviceaccount"
	"mainstay.dev/mainstay/internal/storage"
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
	// versions are those that it can be served in, gv among them.
	versions(gv schema.GroupVersion) []schema.GroupVersion
	// stored says where its objects are, and what they are called in the group; "" for
	// what is not stored.
	stored() (path, name string)
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
	// Enablement says which resources are served. Those of stable versions are
	// built in any case, as the server itself may need them.
	Enablement Enablement
	// DenyPrivileged refuses pods whose containers are privileged.
	DenyPrivileged bool
	// EventTTL is how long events are kept.
	EventTTL time.Duration
	// ServiceRanges are one or two ranges of addresses, of different families, that
	// services may have; none: services are allocated neither addresses nor ports.
	// Which addresses there are is said by ServiceCIDR objects.
	ServiceRanges []netip.Prefix
	// NodePorts are the ports of nodes that services may have.
	NodePorts utilnet.PortRange
	// Limiter limits how many objects of Expensive rows are validated at a time;
	// nil is no limit.
	Limiter registry.Limiter
	// StorageHealth reports whether the storage works; nil: nobody knows.
	StorageHealth func(ctx context.Context) error

	// Roles knows what users may do by roles and bindings, so that nobody grants what
	// they do not have; nil: that is not what is asked.
	Roles RoleResolver

	// Kubelets reaches nodes and what runs on them, Cluster finds the endpoints of
	// services. They are required where subresources that connect are served, and are
	// used when a request comes in.
	Kubelets *kubelet.Client
	Cluster  egress.Cluster

	// ResourceOf returns the resource of a kind, "" where there is none, so that it can
	// be asked who may read such objects. It is required with Authorizer.
	ResourceOf func(schema.GroupVersionKind) string

	// Own reports whether a built-in group version is served; nil: none is.
	Own func(schema.GroupVersion) bool

	// Types finds the types of what policies are about; nil: their expressions are not
	// checked with types.
	Types TypeResolver

	// The following answer reviews. They are required where the groups of
	// reviews are served, and are called when a review comes in.

	// Authorizer decides what access reviews ask.
	Authorizer authorizer.Authorizer
	// AuthenticateToken returns whose token it is and for which of the wanted
	// audiences it is good; none wanted means the server's own. It is nil where
	// the token is nobody's; err may then say why.
	AuthenticateToken func(ctx context.Context, token string, audiences []string) (*request.Authentication, error)
	// Tokens are how tokens of service accounts are issued. It is required where
	// these are asked for.
	Tokens *serviceaccount.Issuer
	// Rules lists what a user may do in a namespace, as far as that can be
	// listed.
	Rules func(ctx context.Context, user *request.User, namespace string) authorizationv1.SubjectRulesReviewStatus

	// Filled by Build.
	stores map[schema.GroupResource]*registry.Store
	specs  map[schema.GroupResource]*storage.Spec
	paths  map[string]bool
	errs   []error // of Storage
	// validator runs the rules of all rows.
	validator *validation.Validator
}

// TypeResolver knows the types of kinds.
type TypeResolver interface {
	// KindOf returns the kind of a resource, an empty one where it is not served.
	KindOf(schema.GroupVersionResource) schema.GroupVersionKind
	// TypeOf returns the type of a kind's objects; nil where that is not known.
	TypeOf(schema.GroupVersionKind) *celtyped.Type
}

// RoleResolver knows the rules of roles and bindings.
type RoleResolver interface {
	// Rules returns what a user has in a namespace, or, where that is "", everywhere.
	// The error names what is missing; the rules are right all the same.
	Rules(user *request.User, namespace string) ([]rbacv1.PolicyRule, error)
	// RoleRules returns the rules of the role that a binding in a namespace names;
	// false if there is no such role.
	RoleRules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, bool)
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
func (env *Env) Spec(resource schema.GroupResource) storage.Spec {
	if spec := env.specs[resource]; spec != nil {
		return *spec
	}
	return storage.Spec{}
}

// Specs returns how the objects of all rows are stored, in the order of their paths. The
// caller must not change them.
func (env *Env) Specs() []*storage.Spec {
	return slices.SortedFunc(maps.Values(env.specs), func(a, b *storage.Spec) int { return cmp.Compare(a.Path, b.Path) })
}

// Keeps reports whether objects of a row are stored under a path below the storage
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

	// Gate is the feature gate without which the kind does not exist; "": none.
	Gate feature.Gate

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
	// GenerationGate is the feature gate without which there is no generation.
	Generation     bool
	GenerationGate feature.Gate
	SpecChanged    func(obj, old *T) bool

	// CreateOnUpdate lets PUT create. RequireResourceVersion refuses a PUT
	// without one. ReturnDeleted answers a deletion with the object instead of
	// a Status. AnyFinalizer accepts finalizers without a domain.
	// Without withholds verbs.
	CreateOnUpdate, RequireResourceVersion, ReturnDeleted bool
	AnyFinalizer                                          bool
	Without                                               []string
	// Warning is told to everyone who uses the resource in the group's version.
	// Deprecated is the minor version of Kubernetes since when that is deprecated;
	// zero: it is not.
	Warning    string
	Deprecated int

	// Expensive says that to validate an object takes milliseconds: it is done under
	// Env.Limiter.
	Expensive bool
	// ValidateName checks names; nil accepts DNS subdomains.
	ValidateName func(name string, prefix bool) []string
	// ExactGenerateName makes a generateName the name itself.
	ExactGenerateName bool
	// Default fills what a client may leave out, on decoding and on reading.
	Default func(obj *T)

	// Authorize returns why the user may not write what is in an object, an API error.
	Authorize func(op *Operation, obj, old *T) error
	// Gated are fields of features that can be off. They are dropped before Prepare and after
	// PrepareUpdate, which may count what is dropped as a change.
	Gated []Gated[T]
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
	// Undeletable returns why the object with a name must not be deleted, "" if it may be.
	// nil: all may be.
	Undeletable func(name string) string
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

	// Also are other versions that the kind can be served in.
	Also []Also
	// Subresources besides status.
	Subresources []Subresource
}

// Also is another version in which a kind can be served.
type Also struct {
	// Version is how objects look; nil: as in the group's version, but for its name,
	// which is then GroupVersion.
	Version      *codec.Version
	GroupVersion schema.GroupVersion
	// FieldLabel translates the keys of field selectors; nil takes the row's.
	FieldLabel func(label, value string) (string, string, error)
	// Deprecated is the minor version of Kubernetes since when it is deprecated, and
	// Successor the version to use instead; zero and "": neither.
	Deprecated int
	Successor  string
}

// version returns how objects look, where hub is the group's version.
func (a *Also) version(hub *codec.Version) *codec.Version {
	if a.Version == nil {
		return relabelled(hub, a.GroupVersion)
	}
	return a.Version
}

func (a *Also) groupVersion() schema.GroupVersion {
	if a.Version == nil {
		return a.GroupVersion
	}
	return a.Version.GVK.GroupVersion()
}
