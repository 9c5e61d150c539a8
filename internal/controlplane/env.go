package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/endpoints/apply/ownership"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/filters/authz/abac"
	"mainstay.dev/mainstay/internal/limits/memory"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/archive"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/telemetry"
)

// Env is the environment that a host provides to its control planes. The control planes that the host serves
// itself share one Env; the control plane of a ControlPlane object has a copy with its own Identity, Network
// and Authorization. An Env must not change after a control plane was created with it. Fields are required
// unless noted.
type Env struct {
	Storage       Storage
	Limits        Limits
	Identity      Identity
	Authorization Authorization
	Network       Network
	Health        Health
	Shutdown      Shutdown
	Telemetry     Telemetry

	// Paths contains the handlers of the process by path, such as /metrics. A path that ends with a slash is a
	// prefix. Paths may be nil.
	Paths map[string]http.Handler
	// TypeConverter converts objects of built-in kinds for managed fields.
	TypeConverter managedfields.TypeConverter
	// Ownership caches managed fields for TypeConverter; with nil, each control plane has a separate cache.
	Ownership *ownership.Cache
	// Shared contains the data that is equal in control planes with the same options; nil disables sharing.
	Shared *Shared
	// Version is the version of this program; "" if it is unknown.
	Version string
	// Simulation is the clock and random source of a server for tests; nil selects the real clock and random
	// source.
	Simulation *simulation.Simulation
}

// Storage contains the stores of a host.
type Storage struct {
	// Backend stores the objects. The host closes it after it has closed the control planes.
	Backend kv.Backend
	// Feed is the change feed of the watch caches. It must watch the prefix of every control plane.
	// nil disables watch caches.
	Feed *cache.Feed
	// Overrides contains the separate stores for some built-in resources; see CheckOverride.
	Overrides []Override
	// Transformer returns the transformer that encrypts the values of a resource. If the function or its result
	// is nil, values are stored in plain text.
	Transformer func(schema.GroupResource) storage.Transformer
	// Encodings limits the memory of cached encodings; nil means no limit.
	Encodings *codec.EncodingCache
	// Shared reports whether other processes might serve the same objects.
	Shared bool
	// Seeded reports whether the prefix of the control plane contains exactly the objects that DefaultObjects
	// returns.
	Seeded bool
	// History contains the earlier states of the objects in Backend; nil disables requests for earlier states.
	History *archive.Archive
}

// Limits contains the resource limits of a host.
type Limits struct {
	// Memory limits the memory of large requests; nil means no limit.
	Memory *memory.Budget
	// Validations limits the number of concurrent expensive validations; nil means no limit.
	Validations registry.Limiter
}

// Identity contains the keys and certificates of a host, and authenticates its users. After a change of
// ClusterAuthentication, ControlPlane.IdentityChanged must be called. The functions are called concurrently.
type Identity struct {
	// Authenticator authenticates the client certificates of users and front proxies.
	Authenticator authn.Authenticator
	// ClusterAuthentication returns the data of the ConfigMap
	// kube-system/extension-apiserver-authentication. The caller owns the result.
	ClusterAuthentication func() (map[string]string, error)
	// ServingCA returns the certificates that verify this server, as PEM. nil disables their
	// publication.
	ServingCA func() []byte
	// ProxyCertificate returns the client certificate for connections to aggregated servers and peers; nil if
	// there is none.
	ProxyCertificate func() (*tls.Certificate, error)
	// KubeletCertificate returns the client certificate for connections to kubelets; nil if there is none.
	KubeletCertificate func() (*tls.Certificate, error)
	// KubeletAuthorities returns the CA certificates that verify the serving certificates of kubelets. nil
	// disables the verification.
	KubeletAuthorities func() *x509.CertPool
	// Signing returns the certificate and key with which CertificateSigningRequests for a signer are signed, or
	// nil if requests for this signer are not signed. If the function is nil, no requests are signed.
	Signing func(signer string) *tls.Certificate
	// TokenAuthenticators authenticate bearer tokens that are neither service account tokens nor bootstrap
	// tokens. They are tried in order.
	TokenAuthenticators []authn.TokenSource
	// Visitors authenticates users of another control plane who may also use this control plane. It is tried
	// after all other authenticators. Its error may be an authn.RejectionError. If Visitors is nil, these users
	// are rejected.
	Visitors authn.Authenticator
	// Anonymous selects the requests that require no credentials; nil applies
	// AuthenticationOptions.DisableAnonymousAuth.
	Anonymous *authn.AnonymousConfig
	// TokenKeys sign and verify service account tokens.
	TokenKeys serviceaccount.Keys
	// MaxTokenLifetime is the maximum lifetime that TokenKeys allow; 0 means no limit.
	MaxTokenLifetime time.Duration
}

// Authorization contains the authorizers that are configured outside a control plane.
type Authorization struct {
	// Configured returns the current list of authorizers, which replaces AuthorizationOptions.Modes. After a
	// change of the configuration, it must return a new list. Later lists must not contain a built-in
	// authorizer that is missing from the first list. nil selects AuthorizationOptions.Modes.
	Configured func() *[]authz.NamedAuthorizer
	// Webhook is the authorizer of the mode Webhook; nil disables the mode.
	Webhook authorizer.Authorizer
	// Policies are the policies of the mode ABAC; nil disables the mode.
	Policies abac.Policies
}

// Network contains the addresses of a host and its connections to other servers.
type Network struct {
	// Networks contains the functions that connect to other servers.
	Networks egress.Networks
	// Address is the host:port at which this process connects to itself.
	Address string
	// PublicURL is the URL of the control plane for clients on other machines.
	PublicURL string
	// PathPrefix is the prefix of all paths in PublicURL, such as "/clusters/a". The handler of the
	// control plane receives paths without it; see request.WithoutPathPrefix.
	PathPrefix string
	// ExternalAddress is the host:port of this process in the discovery document of /api; "" selects
	// the local address of a client's connection.
	ExternalAddress string
	// Endpoint and Port are the endpoint of the service default/kubernetes. If Endpoint is the zero value, no
	// endpoint is published.
	Endpoint netip.Addr
	Port     int
	// Hostname is the host name in the identity of the server.
	Hostname string
	// PeerAuthorities verifies the certificates of peers, which are other servers with the same store. Requests
	// for resources that only a peer serves are forwarded to the peer. nil disables forwarding.
	PeerAuthorities *x509.CertPool
}

// Health contains the health checks of a host. All lists may be empty.
type Health struct {
	// Live contains checks of /livez, /healthz and /readyz.
	Live []telemetry.Check
	// Ready contains checks of /readyz only.
	Ready []telemetry.Check
	// Storage contains checks of /readyz and /healthz. They are not part of /livez, because a restart does not
	// repair the storage.
	Storage []telemetry.Check
	// Hooks contains the names of finished post-start hooks of the process.
	Hooks []string
	// Metrics counts the results of the checks.
	Metrics *telemetry.HealthMetrics
}

// Shutdown ends requests when a host stops.
type Shutdown struct {
	// Drain tracks the requests in progress.
	Drain *filters.Drain
	// Session tracks the requests of a control plane that can be closed before the host stops. It is nil if the
	// control plane is closed only when the host stops.
	Session *filters.Drain
	// Tunnels is canceled to close upgraded connections.
	Tunnels context.Context
}

// Telemetry contains the logger and the metrics of a host.
type Telemetry struct {
	Logger   *slog.Logger
	Requests *telemetry.Requests
	Metrics  *Metrics
	// Audit replaces the policy and the backends of Options.Audit; nil selects Options.Audit.
	Audit *filters.AuditConfig
	// Tracer records the spans of requests; nil disables tracing.
	Tracer trace.TracerProvider
	// Defined reports whether any control plane of the host defines a custom resource. The metrics of the
	// resource, which the control planes share, are deleted only if none of them defines it. Defined may be nil
	// if the host has only one control plane.
	Defined func(schema.GroupResource) bool
}

// check returns an error if a required field is missing.
func (e *Env) check() error {
	for name, missing := range map[string]bool{
		"Storage.Backend": e.Storage.Backend == nil, "TypeConverter": e.TypeConverter == nil,
		"Identity.Authenticator": e.Identity.Authenticator == nil, "Identity.TokenKeys": e.Identity.TokenKeys == nil,
		"Identity.ClusterAuthentication": e.Identity.ClusterAuthentication == nil, "Network.Port": e.Network.Port == 0,
		"Shutdown.Drain": e.Shutdown.Drain == nil, "Shutdown.Tunnels": e.Shutdown.Tunnels == nil, "Health.Metrics": e.Health.Metrics == nil,
		"Telemetry.Requests": e.Telemetry.Requests == nil, "Telemetry.Metrics": e.Telemetry.Metrics == nil, "Telemetry.Logger": e.Telemetry.Logger == nil,
	} {
		if missing {
			return fmt.Errorf("control plane: Env.%s is required", name)
		}
	}
	return nil
}
