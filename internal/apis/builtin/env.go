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
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/authorizer"
	celtyped "mainstay.dev/mainstay/internal/cel/typed"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/kubelet"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/feature/emulation"
	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/storage"
)

// Env contains the server dependencies of the rows. Its exported fields must not change after Build. Its
// methods are safe for concurrent use after Build.
type Env struct {
	// Gates contains the state of all feature gates.
	Gates feature.Gates
	// Enablement selects the served resources. Resources of stable versions are always built, because the
	// server itself may use them.
	Enablement Enablement
	// Release is the emulated version of Kubernetes. nil means that no version is emulated.
	Release *emulation.Release
	// Newer selects the resources that are served although Release lacks them.
	Newer NewerResources
	// Reserved contains storage paths, relative to the storage prefix, that no CustomResourceDefinition may
	// use.
	Reserved map[string]bool
	// DenyPrivileged causes pods with privileged containers to be rejected.
	DenyPrivileged bool
	// EventTTL is the lifetime of events. If it is 0, events do not expire.
	EventTTL time.Duration
	// ValidationLimiter limits the number of concurrent validations of rows with
	// WritePolicy.ExpensiveValidation. nil means no limit.
	ValidationLimiter registry.Limiter
	// Deletion contains settings that apply to all deletions.
	Deletion registry.Deletion

	Storage     StorageEnv
	Services    ServiceNetwork
	Connections Connections
	Auth        Auth

	// ServesVersion reports whether a built-in group version is served. If it is nil, no built-in version is
	// served.
	ServesVersion func(schema.GroupVersion) bool
	// Types resolves the types of the objects that admission policies use. nil disables type checking.
	Types TypeResolver

	built built
}

// StorageEnv provides access to the storage of a server.
type StorageEnv struct {
	// Open opens the storage of a kind. If it is nil, resources are built without storage.
	Open func(storage.Spec) (storage.Interface, error)
	// Shared specifies that kube-apiserver may read and write the same storage.
	Shared bool
	// Health returns nil if the storage is healthy, and otherwise an error. Health is required if
	// componentstatuses are served.
	Health func(ctx context.Context) error
}

// ServiceNetwork configures the addresses and ports of services.
type ServiceNetwork struct {
	// Ranges contains up to two address ranges, of different IP families. If it is empty, no addresses and
	// ports are allocated. ServiceCIDR objects define the available addresses.
	Ranges []netip.Prefix
	// NodePorts is the range of ports from which node ports are allocated.
	NodePorts utilnet.PortRange
}

// Connections contains the clients for connections to nodes, pods and services. Its fields are required if
// connect subresources are served. They are used during requests only.
type Connections struct {
	Kubelets *kubelet.Client
	Cluster  egress.Cluster
}

// Auth contains the authentication and authorization functions that reviews and the hooks of rows use. Its
// fields are required if the API groups of reviews are served. They are used during requests only.
type Auth struct {
	// Authorizer decides access reviews, and checks the additional permissions that hooks require.
	Authorizer authorizer.Authorizer
	// ResourceFor returns the resource name of a kind, or "" if the kind is unknown. It is used to authorize
	// reads of policy parameters. It is required if Authorizer is set.
	ResourceFor func(schema.GroupVersionKind) string
	// Roles resolves permissions to prevent users from granting permissions that they do not have. nil
	// disables this check.
	Roles RoleResolver
	// UserRules lists the permissions of a user in a namespace. The returned status reports whether the list
	// is incomplete.
	UserRules func(ctx context.Context, user *request.User, namespace string) authorizationv1.SubjectRulesReviewStatus
	// AuthenticateToken returns the user of a token, and those of the requested audiences for which the token
	// is valid. If audiences is empty, the audiences of the server apply. AuthenticateToken returns nil for an
	// invalid token, possibly with an error.
	AuthenticateToken func(ctx context.Context, token string, audiences []string) (*request.Authentication, error)
	// Tokens issues service account tokens.
	Tokens *serviceaccount.Issuer
}

// TypeResolver resolves the CEL types of kinds. It is safe for concurrent use. TypeOf blocks while it builds
// the type of a kind.
type TypeResolver interface {
	// KindOf returns the kind of a resource, or an empty kind if the resource is not served.
	KindOf(schema.GroupVersionResource) schema.GroupVersionKind
	// TypeOf returns the type of the objects of a kind, or nil if the type is unknown.
	TypeOf(schema.GroupVersionKind) *celtyped.Type
}

// RoleResolver resolves the rules of roles and bindings. It is safe for concurrent use and does not
// block.
type RoleResolver interface {
	// Rules returns the rules that apply to a user in a namespace, or cluster-wide if namespace is "". If some
	// roles cannot be resolved, it returns the rules of the remaining roles and an error.
	Rules(user *request.User, namespace string) ([]rbacv1.PolicyRule, error)
	// RoleRules returns the rules of the role that a binding in a namespace references. It returns false if
	// the role does not exist.
	RoleRules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, bool)
}

// built is the part of an Env that Build or Declared.Open initializes.
type built struct {
	declarations
	stores    map[schema.GroupResource]*registry.Store
	errs      []error // errors of StorageEnv.Open
	validator *validation.Validator
	resources *Resources // nil if Build created the resources
}

// declarations contains the properties of rows that do not depend on storage. It does not change after Build.
type declarations struct {
	specs map[schema.GroupResource]*storage.Spec
	paths map[string]*storage.Spec
	// lacking contains the fields of the hub version that Release lacks. Kinds that lack no fields are absent.
	lacking map[*codec.Kind]*emulation.Fields
}

// Store returns the store of a resource of the same server, or nil if the resource has no store. It must be
// called only during requests, because stores are missing while the resources are created.
func (env *Env) Store(resource schema.GroupResource) *registry.Store {
	if env.built.resources != nil {
		return env.built.resources.store(resource)
	}
	return env.built.stores[resource]
}

// Spec returns the storage specification of a row, or the zero Spec if there is no such row.
func (env *Env) Spec(resource schema.GroupResource) storage.Spec {
	if spec := env.built.specs[resource]; spec != nil {
		return *spec
	}
	return storage.Spec{}
}

// Specs returns the storage specifications of all rows, sorted by path. The caller must not modify them.
func (env *Env) Specs() []*storage.Spec {
	return slices.SortedFunc(maps.Values(env.built.specs), func(a, b *storage.Spec) int { return cmp.Compare(a.Path, b.Path) })
}

// StoresPath reports whether a path is the storage path of a row or is reserved. The path is relative to the
// storage prefix.
func (env *Env) StoresPath(path string) bool {
	return env.SpecOfPath(path) != nil || env.Reserved[path]
}

// SpecOfPath returns the storage specification of the row with the given storage path, or nil if no row has
// this path. The caller must not modify it.
func (env *Env) SpecOfPath(path string) *storage.Spec { return env.built.paths[path] }
