// Package builtin declares the built-in resources of Kubernetes. A resource is a row: names, scope,
// and hooks for its differences from other resources. The subfolder of an API group contains its
// rows; this package converts rows into REST storage.
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
	// versions are the versions in which it can be served, including gv.
	versions(gv schema.GroupVersion) []schema.GroupVersion
	// stored returns the storage path of its objects and its name in the group; "" for resources
	// that are not stored.
	stored() (path, name string)
}

// Env contains the dependencies of rows on their server.
type Env struct {
	// Storage opens the storage of a kind; nil describes resources without storage.
	Storage func(storage.Spec) (storage.Interface, error)
	// Shared reports that kube-apiserver may read and write the same storage.
	Shared bool
	// Gates are the feature gates that are on.
	Gates feature.Gates
	// Enablement selects the served resources. Those of stable versions are always built, because
	// the server may use them.
	Enablement Enablement
	// DenyPrivileged rejects pods with privileged containers.
	DenyPrivileged bool
	// EventTTL is the time to live of events.
	EventTTL time.Duration
	// ServiceRanges are one or two address ranges of different families for services; empty
	// disables the allocation of addresses and ports. ServiceCIDR objects define the available
	// addresses.
	ServiceRanges []netip.Prefix
	// NodePorts are the ports of nodes that services may have.
	NodePorts utilnet.PortRange
	// Limiter limits how many objects of Expensive rows are validated at a time;
	// nil is no limit.
	Limiter registry.Limiter
	// StorageHealth returns the error of the storage; nil if unknown.
	StorageHealth func(ctx context.Context) error

	// Roles resolves permissions by roles and bindings, so that users cannot grant permissions that
	// they do not have; nil disables the check.
	Roles RoleResolver

	// Kubelets connects to nodes and pods, Cluster finds the endpoints of services. They are
	// required if connect subresources are served, and are used by requests only.
	Kubelets *kubelet.Client
	Cluster  egress.Cluster

	// ResourceOf returns the resource of a kind, or "", for the authorization of reads of
	// parameters. Required with Authorizer.
	ResourceOf func(schema.GroupVersionKind) string

	// Own reports whether a built-in group version is served; nil means none.
	Own func(schema.GroupVersion) bool

	// Types resolves the types of policies' objects; nil disables type checking.
	Types TypeResolver

	// The following fields serve reviews. They are required if the groups of reviews are served,
	// and are used by requests only.

	// Authorizer decides access reviews.
	Authorizer authorizer.Authorizer
	// AuthenticateToken returns the user of a token and the requested audiences for which it is
	// valid; without requested audiences, the server's own apply. It returns nil for an invalid
	// token, possibly with an error.
	AuthenticateToken func(ctx context.Context, token string, audiences []string) (*request.Authentication, error)
	// Tokens configures the tokens of service accounts. Required if TokenRequests are served.
	Tokens *serviceaccount.Issuer
	// Rules lists the permissions of a user in a namespace, as far as possible.
	Rules func(ctx context.Context, user *request.User, namespace string) authorizationv1.SubjectRulesReviewStatus

	// Filled by Build.
	stores map[schema.GroupResource]*registry.Store
	specs  map[schema.GroupResource]*storage.Spec
	paths  map[string]bool
	errs   []error // of Storage
	// validator runs the rules of all rows.
	validator *validation.Validator
}

// TypeResolver resolves the types of kinds.
type TypeResolver interface {
	// KindOf returns the kind of a resource, an empty one where it is not served.
	KindOf(schema.GroupVersionResource) schema.GroupVersionKind
	// TypeOf returns the type of a kind's objects; nil where that is not known.
	TypeOf(schema.GroupVersionKind) *celtyped.Type
}

// RoleResolver resolves the rules of roles and bindings.
type RoleResolver interface {
	// Rules returns the rules of a user in a namespace, or cluster-wide if it is "". The error
	// describes missing rules; the returned ones are valid.
	Rules(user *request.User, namespace string) ([]rbacv1.PolicyRule, error)
	// RoleRules returns the rules of the role that a binding in a namespace names;
	// false if there is no such role.
	RoleRules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, bool)
}

// Operation is the write during which a hook of a row is called.
type Operation struct {
	// Context is the request's.
	Context context.Context
	// Env is that of the control plane that is written to.
	Env *Env
	// DryRun reports that nothing is written. It is set for Begin only.
	DryRun bool
}

// Store returns the store of a resource that was built with the same Env, or nil. It is for
// requests: during the construction, some resources are still missing.
func (env *Env) Store(resource schema.GroupResource) *registry.Store { return env.stores[resource] }

// Spec returns the specification of a row's storage, or the zero Spec.
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

// Keeps reports whether a row stores objects under a path below the storage prefix.
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

	// Gate is the feature gate that the kind requires; "" for none.
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
	// StoredShared is the version of StoredAlso for storage shared with kube-apiserver: the version
	// that it writes.
	StoredShared *codec.Version
	// StoredAsJSON is as in codec.Kind.
	StoredAsJSON bool
	// HashedAs is the version that the storageVersionHash is made of, where
	// that is not the one that objects are encoded in.
	HashedAs schema.GroupVersion

	// Status reports that the type has a Status that is written through /status only. It is cleared
	// on creation and preserved on update; a write to /status preserves all other parts except
	// metadata. StatusOnCreate permits a status on creation.
	Status, StatusOnCreate bool
	// Generation enables metadata.generation: 1 at creation, incremented by each change of Spec, or
	// of the part that SpecChanged compares. GenerationGate is the required feature gate.
	Generation     bool
	GenerationGate feature.Gate
	SpecChanged    func(obj, old *T) bool

	// CreateOnUpdate lets PUT create. RequireResourceVersion rejects a PUT without a version.
	// ReturnDeleted returns the object of a deletion instead of a Status. AnyFinalizer accepts
	// finalizers without a domain. Without disables verbs.
	CreateOnUpdate, RequireResourceVersion, ReturnDeleted bool
	AnyFinalizer                                          bool
	Without                                               []string
	// Warning is sent to all users of the resource in the group's version. Deprecated is the minor
	// version of Kubernetes that deprecated it; 0 if not deprecated.
	Warning    string
	Deprecated int

	// Expensive reports that the validation takes milliseconds; it then runs with Env.Limiter.
	Expensive bool
	// ValidateName checks names; nil accepts DNS subdomains.
	ValidateName func(name string, prefix bool) []string
	// ExactGenerateName makes a generateName the name itself.
	ExactGenerateName bool
	// Default sets defaults, on decoding and on reading.
	Default func(obj *T)

	// Authorize returns an API error if the user may not write the content of an object.
	Authorize func(op *Operation, obj, old *T) error
	// Gated are the fields of features that can be disabled. They are dropped before Prepare, and
	// after PrepareUpdate, which may count a dropped field as a change.
	Gated []Gated[T]
	// Prepare completes a new object, and PrepareUpdate an object that replaces old: it sets and
	// clears fields that the server owns.
	Prepare       func(op *Operation, obj *T)
	PrepareUpdate func(op *Operation, obj, old *T)
	// Validate validates an object without its metadata: a new one if old is nil, otherwise one
	// that replaces old. Neither may be modified.
	Validate func(f validation.Field, obj, old *T)
	// Permit and PermitStatus reject valid changes that other objects or the authorizer do not
	// permit. They run before Validate and ValidateStatus.
	Permit, PermitStatus func(op *Operation, f validation.Field, obj, old *T)
	// Warnings returns the warnings for a valid object. old is nil on creation.
	Warnings func(op *Operation, obj, old *T) []string

	// StatusKeeps are parts of metadata that a write to /status preserves: "metadata" (labels,
	// annotations, finalizers and owners), "metadata.labels" or "metadata.ownerReferences".
	StatusKeeps []string
	// Resets and StatusResets are the dotted paths of further fields that a write to the resource,
	// or to /status, does not change; the hooks implement this.
	Resets, StatusResets []string
	// PrepareStatus and ValidateStatus are for writes to /status.
	PrepareStatus  func(op *Operation, obj, old *T)
	ValidateStatus func(f validation.Field, obj, old *T)

	// GracePeriod, Held and OnMark are GracePeriod, BlocksRemoval and PrepareForDelete of
	// registry.Strategy.
	GracePeriod     func(obj *T, asked *int64) int64
	Held            func(obj *T) bool
	OnMark          func(obj *T)
	OrphanByDefault bool
	// NoDependents reports that objects of the kind own no others: propagation policies have no
	// effect.
	NoDependents bool
	// Undeletable returns why the object with a name must not be deleted, "" if it may be.
	// nil: all may be.
	Undeletable func(name string) string
	// OrphanWarning is sent for a deletion without a propagation policy.
	OrphanWarning string
	// Begin is called before the write of an object, after validation: see registry.Begin. obj is
	// nil for a deletion, old for a creation.
	Begin func(op *Operation, obj, old *T) (registry.Transaction, error)
	// TTL returns how long an object lives after each write.
	TTL func(env *Env, obj *T) time.Duration

	// SelectableFields are the keys of field selectors besides metadata.name
	// and metadata.namespace; Fields returns their values.
	SelectableFields []string
	Fields           func(obj *T) fields.Set
	// FieldLabel translates the keys of field selectors, if SelectableFields are not sufficient or
	// errors have other messages.
	FieldLabel func(label, value string) (string, string, error)
	// IndexFields are the SelectableFields with indexes for watches of one value.
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
	// FieldLabel translates the keys of field selectors; nil selects that of the row.
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
