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

// Env contains the dependencies of rows on their server. Its exported fields must not change after
// Build. Its methods are safe for concurrent use after Build.
type Env struct {
	// Gates are the enabled feature gates.
	Gates feature.Gates
	// Enablement selects the served resources. Resources of stable versions are always built,
	// because the server may use them.
	Enablement Enablement
	// Release is the emulated version of Kubernetes; nil emulates none.
	Release *emulation.Release
	// Newer selects the resources that are served although Release does not have them.
	Newer NewerResources
	// Reserved contains storage paths that no CustomResourceDefinition can use.
	Reserved map[string]bool
	// DenyPrivileged rejects pods with privileged containers.
	DenyPrivileged bool
	// EventTTL is the lifetime of events; 0 if they do not expire.
	EventTTL time.Duration
	// ValidationLimiter limits the number of concurrent validations of rows with
	// WritePolicy.ExpensiveValidation; nil is no limit.
	ValidationLimiter registry.Limiter
	// Deletion are the settings of deletions.
	Deletion registry.Deletion

	Storage     StorageEnv
	Services    ServiceNetwork
	Connections Connections
	Auth        Auth

	// ServesVersion reports whether a built-in group version is served; nil returns false.
	ServesVersion func(schema.GroupVersion) bool
	// Types resolves the types of the objects of policies; nil disables type checking.
	Types TypeResolver

	built built
}

// StorageEnv gives access to the storage of a server.
type StorageEnv struct {
	// Open opens the storage of a kind; nil builds resources without storage.
	Open func(storage.Spec) (storage.Interface, error)
	// Shared reports that kube-apiserver may read and write the same storage.
	Shared bool
	// Health returns the error of the storage, or nil if it is healthy. It is required if
	// componentstatuses are served.
	Health func(ctx context.Context) error
}

// ServiceNetwork configures the addresses and ports of services.
type ServiceNetwork struct {
	// Ranges are one or two address ranges of different families; empty disables the allocation of
	// addresses and ports. ServiceCIDR objects define the available addresses.
	Ranges []netip.Prefix
	// NodePorts are the node ports that services may have.
	NodePorts utilnet.PortRange
}

// Connections connect to nodes, pods and services. They are required if connect subresources are
// served, and are used during requests only.
type Connections struct {
	Kubelets *kubelet.Client
	Cluster  egress.Cluster
}

// Auth authenticates and authorizes for reviews and for the hooks of rows. Its fields are required
// if the groups of reviews are served, and are used during requests only.
type Auth struct {
	// Authorizer decides access reviews, and accesses that validation requires.
	Authorizer authorizer.Authorizer
	// ResourceFor returns the resource of a kind, or "", to authorize reads of policy parameters.
	// It is required with Authorizer.
	ResourceFor func(schema.GroupVersionKind) string
	// Roles resolves permissions, so that users cannot grant permissions that they do not have; nil
	// disables the check.
	Roles RoleResolver
	// UserRules lists the permissions of a user in a namespace. The status reports whether the list
	// is incomplete.
	UserRules func(ctx context.Context, user *request.User, namespace string) authorizationv1.SubjectRulesReviewStatus
	// AuthenticateToken returns the user of a token and the requested audiences for which it is
	// valid; without requested audiences, the audiences of the server apply. It returns nil for an
	// invalid token, possibly with an error.
	AuthenticateToken func(ctx context.Context, token string, audiences []string) (*request.Authentication, error)
	// Tokens issues the tokens of service accounts.
	Tokens *serviceaccount.Issuer
}

// TypeResolver resolves the types of kinds. It is safe for concurrent use. TypeOf blocks while it
// builds the type of a kind.
type TypeResolver interface {
	// KindOf returns the kind of a resource; empty if the resource is not served.
	KindOf(schema.GroupVersionResource) schema.GroupVersionKind
	// TypeOf returns the type of the objects of a kind; nil if it is unknown.
	TypeOf(schema.GroupVersionKind) *celtyped.Type
}

// RoleResolver resolves the rules of roles and bindings. It is safe for concurrent use and does not
// block.
type RoleResolver interface {
	// Rules returns the rules of a user in a namespace, or cluster-wide if it is "". If some roles
	// could not be resolved, it returns the rules of the others and an error.
	Rules(user *request.User, namespace string) ([]rbacv1.PolicyRule, error)
	// RoleRules returns the rules of the role that a binding in a namespace references; false if
	// the role does not exist.
	RoleRules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, bool)
}

// built is the state of an Env that Build or Declared.Open creates.
type built struct {
	declarations
	stores    map[schema.GroupResource]*registry.Store
	errs      []error // errors of StorageEnv.Open
	validator *validation.Validator
	resources *Resources // nil after Build
}

// declarations are the properties of rows that do not depend on storage. They do not change after Build.
type declarations struct {
	specs map[schema.GroupResource]*storage.Spec
	paths map[string]*storage.Spec
	// lacking are the fields of the hub version that Release lacks; kinds with all fields are absent.
	lacking map[*codec.Kind]*emulation.Fields
}

// Store returns the store of a resource of the same server, or nil if there is none. It must be called during
// requests only, because stores are missing while the resources are created.
func (env *Env) Store(resource schema.GroupResource) *registry.Store {
	if env.built.resources != nil {
		return env.built.resources.store(resource)
	}
	return env.built.stores[resource]
}

// Spec returns the specification of the storage of a row, or the zero Spec.
func (env *Env) Spec(resource schema.GroupResource) storage.Spec {
	if spec := env.built.specs[resource]; spec != nil {
		return *spec
	}
	return storage.Spec{}
}

// Specs returns the specifications of the storage of all rows, in the order of their paths. The
// caller must not modify them.
func (env *Env) Specs() []*storage.Spec {
	return slices.SortedFunc(maps.Values(env.built.specs), func(a, b *storage.Spec) int { return cmp.Compare(a.Path, b.Path) })
}

// StoresPath reports whether a row stores objects under a path below the storage prefix, or the path is
// reserved.
func (env *Env) StoresPath(path string) bool {
	return env.SpecOfPath(path) != nil || env.Reserved[path]
}

// SpecOfPath returns the specification of the storage of a row by its path, or nil. The caller must not modify it.
func (env *Env) SpecOfPath(path string) *storage.Spec { return env.built.paths[path] }
