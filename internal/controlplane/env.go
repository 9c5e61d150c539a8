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

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/plugin"
	"mainstay.dev/mainstay/internal/admission/policies"
	"mainstay.dev/mainstay/internal/admission/webhooks"
	"mainstay.dev/mainstay/internal/apis/aggregated"
	"mainstay.dev/mainstay/internal/apis/custom/conversion"
	"mainstay.dev/mainstay/internal/apis/custom/rules"
	"mainstay.dev/mainstay/internal/apis/peers"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/audit"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/filters/flowcontrol"
	"mainstay.dev/mainstay/internal/limits/memory"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/serviceaccount"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/reflector"
	"mainstay.dev/mainstay/internal/telemetry"
)

// Env is the environment that a host provides to its control planes. They share it; it is immutable
// after the first one was opened. Fields are required unless noted.
type Env struct {
	// Backend stores the objects; the host closes it after its control planes.
	Backend kv.Backend
	// Feed is the change feed of the watch caches. It must watch the prefix of
	// every control plane. nil: no watch caches.
	Feed *cache.Feed
	// Overrides are other stores, which keep single built-in resources instead; see
	// CheckOverride.
	Overrides []Override
	// Transformer changes the values of a resource on their way to Backend; nil: they are
	// stored as they are.
	Transformer func(schema.GroupResource) storage.Transformer
	// Encodings bounds the memory for encoded objects; nil sets no bound.
	Encodings *codec.Memory
	// Memory limits the memory of large requests; nil means no limit.
	Memory *memory.Budget
	// TypeConverter is that of built-in kinds.
	TypeConverter managedfields.TypeConverter
	// Limiter limits how many validations that take milliseconds run at a time;
	// nil sets no limit.
	Limiter registry.Limiter

	Identity      Identity
	Authorization Authorization
	// Networks are how control planes connect to others.
	Networks egress.Networks
	// Address is the host:port by which this process reaches itself, PublicURL
	// the URL for other machines.
	Address, PublicURL string
	// Endpoint and Port are the endpoint of the service default/kubernetes; the zero value
	// publishes none.
	Endpoint netip.Addr
	Port     int
	// Hostname is that of this machine, of which the server's identity is made.
	Hostname string
	// PeerAuthorities sign the certificates of other servers, which requests for unknown
	// resources are sent on to; nil: they are not.
	PeerAuthorities *x509.CertPool
	// Shared: other processes may serve the same objects.
	Shared bool
	// Paths are handlers of the process, such as /metrics. A path that ends in a
	// slash is a prefix.
	Paths map[string]http.Handler
	// Live and Ready are health checks of the process. Readiness includes Live.
	// StorageChecks are part of /readyz and /healthz, but not of /livez: a restart would
	// not help.
	Live, Ready, StorageChecks []telemetry.Check
	// Defined reports whether any control plane of the host defines a resource, because they share
	// metrics; nil with a single control plane.
	Defined func(schema.GroupResource) bool
	// Hooks are names of post-start hooks of the process, which are done.
	Hooks []string

	// Drain ends requests when the host stops, Tunnels upgraded connections.
	Drain   *filters.Drain
	Tunnels context.Context

	Requests *telemetry.Requests
	Health   *telemetry.HealthMetrics
	Metrics  *Metrics
	Logger   *slog.Logger
	// Version of this program; "": unknown.
	Version string
	// World is that of a server for tests; nil is the real one.
	World *simulation.World
}

// Identity is the keys and certificates of a host. When the results of its functions
// change, IdentityChanged must be called.
type Identity struct {
	// Authenticator authenticates client certificates, of users and front proxies.
	Authenticator authn.Authenticator
	// ClusterAuthentication returns the data of the ConfigMap
	// kube-system/extension-apiserver-authentication. The caller may keep it.
	ClusterAuthentication func() (map[string]string, error)
	// ServingCA returns the certificates by which clients verify this server, as PEM;
	// nil: they are not published.
	ServingCA func() []byte
	// ProxyCertificate returns the client certificate for aggregated servers; nil without one.
	ProxyCertificate func() (*tls.Certificate, error)
	// KubeletCertificate returns the client certificate for kubelets; nil without one.
	// KubeletAuthorities returns the authorities of their serving certificates; nil disables
	// verification.
	KubeletCertificate func() (*tls.Certificate, error)
	KubeletAuthorities func() *x509.CertPool
	// Signing returns the certificate and key of the authority by which
	// CertificateSigningRequests to a signer are signed; nil: they are not.
	Signing func(signer string) *tls.Certificate
	// StaticTokens and ProviderTokens return the user of a bearer token, or nil for unknown tokens.
	// A nil function is disabled.
	StaticTokens, ProviderTokens func(ctx context.Context, token string) (*request.User, error)
	// TokenWebhook authenticates tokens that no other authenticator knows; nil disables it.
	TokenWebhook *authn.WebhookTokens
	// Anonymous selects the requests that need no credentials; nil selects Options.ClosedToPublic.
	Anonymous *authn.AnonymousConfig
	// TokenKeys sign and verify service account tokens, which may last as long as
	// MaxTokenLifetime; 0: any time.
	TokenKeys        serviceaccount.Keys
	MaxTokenLifetime time.Duration
}

// Metrics are the metrics of control planes. All of a host share one.
type Metrics struct {
	Storage        *storage.Metrics
	Reflectors     *reflector.Metrics
	Conversions    *conversion.Metrics
	Aggregation    *aggregated.Metrics
	Authentication *authn.RequestMetrics
	Tokens         *authn.ServiceAccountMetrics
	Authorization  *authz.Metrics
	Authorized     *authz.RequestMetrics
	Admission      *admission.Metrics
	Webhooks       *webhooks.Metrics
	Manifests      *manifestMetrics
	Objects        *objectMetrics
	Peers          *peers.Metrics
	Policies       *policies.Metrics
	PodSecurity    *plugin.PodSecurityMetrics
	Audit          *audit.Metrics
	FlowControl    *flowcontrol.Metrics
	Queues         *work.Metrics
	Rules          *rules.Metrics
}

// NewMetrics registers the metrics of control planes of a host.
func NewMetrics(registerer prometheus.Registerer, hostname string) (*Metrics, error) {
	m := &Metrics{}
	var err error
	if m.Storage, err = storage.NewMetrics(registerer); err != nil {
		return nil, err
	}
	if m.Reflectors, err = reflector.NewMetrics(registerer); err != nil {
		return nil, err
	}
	if m.Conversions, err = conversion.NewMetrics(registerer); err != nil {
		return nil, err
	}
	if m.Aggregation, err = aggregated.NewMetrics(registerer); err != nil {
		return nil, err
	}
	if m.Authentication, err = authn.NewRequestMetrics(registerer); err != nil {
		return nil, err
	}
	if m.Manifests, err = newManifestMetrics(telemetry.Identified(registerer, hostname)); err != nil {
		return nil, err
	}
	if m.Peers, err = peers.NewMetrics(registerer); err != nil {
		return nil, err
	}
	if m.Objects, err = newObjectMetrics(registerer); err != nil {
		return nil, err
	}
	if m.Webhooks, err = webhooks.NewMetrics(registerer); err != nil {
		return nil, err
	}
	if m.Policies, err = policies.NewMetrics(registerer); err != nil {
		return nil, err
	}
	if m.Tokens, err = authn.NewServiceAccountMetrics(registerer); err != nil {
		return nil, err
	}
	if m.Authorization, err = authz.NewMetrics(registerer); err != nil {
		return nil, err
	}
	if m.Authorized, err = authz.NewRequestMetrics(registerer); err != nil {
		return nil, err
	}
	if m.Admission, err = admission.NewMetrics(registerer); err != nil {
		return nil, err
	}
	if m.PodSecurity, err = plugin.NewPodSecurityMetrics(registerer); err != nil {
		return nil, err
	}
	if m.Audit, err = audit.NewMetrics(registerer); err != nil {
		return nil, err
	}
	if m.Queues, err = work.NewMetrics(registerer); err != nil {
		return nil, err
	}
	if m.Rules, err = rules.NewMetrics(registerer); err != nil {
		return nil, err
	}
	if m.FlowControl, err = flowcontrol.NewMetrics(registerer); err != nil {
		return nil, err
	}
	return m, nil
}

// check reports missing fields.
func (e *Env) check() error {
	for name, missing := range map[string]bool{
		"Backend": e.Backend == nil, "TypeConverter": e.TypeConverter == nil, "Identity.Authenticator": e.Identity.Authenticator == nil,
		"Port": e.Port == 0, "Identity.ClusterAuthentication": e.Identity.ClusterAuthentication == nil, "Identity.TokenKeys": e.Identity.TokenKeys == nil,
		"Drain": e.Drain == nil, "Tunnels": e.Tunnels == nil, "Requests": e.Requests == nil, "Health": e.Health == nil,
		"Metrics": e.Metrics == nil, "Logger": e.Logger == nil,
	} {
		if missing {
			return fmt.Errorf("control plane: Env.%s is required", name)
		}
	}
	return nil
}
