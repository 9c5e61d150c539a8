// Package host runs control planes in a process. It owns the listener, TLS, the data directory, the
// store, keys and certificates, and metrics, and determines the order of startup and shutdown.
// Package controlplane implements the Kubernetes API; a host opens one control plane and can open
// more. Hosts in one process are independent.
package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/egress/selector"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/filters/authn/oidc"
	"mainstay.dev/mainstay/internal/filters/authz/webhook"
	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/internal/limits/memory"
	"mainstay.dev/mainstay/internal/serviceaccount"
	"mainstay.dev/mainstay/internal/serviceaccount/external"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/encryption"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/telemetry"
)

// Host hosts control planes: one of them, below --etcd-prefix, is served on the
// listener; ControlPlane opens others. It is run once.
type Host struct {
	config   Config
	logger   *slog.Logger
	registry *prometheus.Registry
	slis     *prometheus.Registry // of /metrics/slis
	requests *telemetry.Requests
	drain    *filters.Drain
	// providerMetrics are the metrics of OpenID Connect, webhookMetrics of authorization,
	// encryptionMetrics of encryption at rest, egressMetrics of connections through proxies.
	providerMetrics   *oidc.Metrics
	webhookMetrics    *webhook.Metrics
	encryptionMetrics *encryption.Metrics
	egressMetrics     *selector.Metrics
	cacheMetrics      *cache.Metrics
	// reloads of configuration files.
	reloads struct{ authentication, authorization *telemetry.Reloads }

	ran      atomic.Bool
	stopping atomic.Bool // /readyz fails from here on

	// The following fields are set by open, in this order.
	egress    *selector.Selector
	dir       *dataDir // nil in memory
	authority *pki.Authority
	tokenKeys serviceaccount.Keys
	// externalKeys are the tokenKeys of another program, or nil.
	externalKeys *external.Keys
	tokenUsers   *tokenUsers
	reloader     *fileReloader
	certs        *certificates
	clientCA     *clientCA
	frontProxy   *frontProxy
	kubelets     kubelets
	// signing is controlplane.Identity's Signing.
	signing    func(signer string) *tls.Certificate
	handshake  atomic.Pointer[tls.Config] // of new connections; nil: the initial one
	kubeconfig string                     // the administrator's, as a path
	backend    kv.Backend
	overrides  []controlplane.Override // closed as backend is
	feed       *cache.Feed             // nil without a watch cache
	stopFeed   func()
	// stopEncryption is nil without encryption.
	stopEncryption func()
	// tunnels is done when upgraded connections are to end.
	tunnels    context.Context
	endTunnels context.CancelFunc
	env        *controlplane.Env // shared by all control planes
	// served is the control plane that the listener serves.
	served *controlplane.ControlPlane
	mu     struct {
		sync.Mutex
		opened bool
		planes map[string]*controlplane.ControlPlane // by their prefixes, with a slash at the end
		closed bool
	}
}

// New returns a host, or all errors of the config. It touches neither the data
// directory nor the network.
func New(config Config) (*Host, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	registry := telemetry.NewRegistry(controlplane.Build(config.Version))
	encodings, err := codec.NewMemory(codec.MemoryConfig{Limit: config.CacheMemoryLimit, Pressed: config.MemoryPressed, Registerer: registry})
	if err != nil {
		return nil, err
	}
	budget, err := memory.NewBudget(config.MemoryLimit, registry)
	if err != nil {
		return nil, err
	}
	registry.MustRegister(newFeatures(config.Gates()))
	metrics, err := controlplane.NewMetrics(registry, config.Hostname)
	if err != nil {
		return nil, err
	}
	h := &Host{
		config: config, logger: config.Logger, registry: registry, slis: prometheus.NewRegistry(),
		requests: telemetry.NewRequests(registry), drain: filters.NewDrain(), reloader: &fileReloader{logger: config.Logger},
	}
	if err := h.newMetrics(); err != nil {
		return nil, err
	}
	if faults := config.Faults; faults != nil {
		faults.Hold, h.config.Filter = h.hold, faults.Filter
	}
	h.mu.planes = map[string]*controlplane.ControlPlane{}
	h.tunnels, h.endTunnels = context.WithCancel(context.Background())
	h.env = &controlplane.Env{
		Storage:   controlplane.Storage{Encodings: encodings},
		Limits:    controlplane.Limits{Memory: budget, Turns: config.Turns, Validations: config.Expensive},
		Health:    controlplane.Health{Ready: []telemetry.Check{h.shutdownCheck()}, Metrics: telemetry.NewHealthMetrics(h.slis)},
		Shutdown:  controlplane.Shutdown{Drain: h.drain, Tunnels: h.tunnels},
		Telemetry: controlplane.Telemetry{Logger: h.logger, Requests: h.requests, Metrics: metrics},
		Paths:     h.paths(), TypeConverter: openapi.NewTypeConverter(), Version: config.Version, World: config.World,
	}
	return h, nil
}

// newMetrics registers the metrics of features that files and flags configure.
func (h *Host) newMetrics() error {
	var errs [7]error
	identified := telemetry.Identified(h.registry, h.config.Hostname)
	h.providerMetrics, errs[0] = oidc.NewMetrics(h.registry, identified)
	h.webhookMetrics, errs[1] = webhook.NewMetrics(h.registry)
	h.reloads.authentication, errs[2] = telemetry.NewReloads(identified, "authentication")
	h.reloads.authorization, errs[3] = telemetry.NewReloads(identified, "authorization")
	h.encryptionMetrics, errs[4] = encryption.NewMetrics(h.registry, telemetry.ServerID(h.config.Hostname))
	h.egressMetrics, errs[5] = selector.NewMetrics(h.registry)
	h.cacheMetrics, errs[6] = cache.NewMetrics(h.registry)
	return errors.Join(errs[:]...)
}

// ErrRunTwice is returned by a second Run.
var ErrRunTwice = errors.New("a server can be run only once")

// Run serves until ctx ends, then drains and returns nil. It returns an error if the
// server cannot start or shut down cleanly, and ErrRunTwice if it was run before.
func (h *Host) Run(ctx context.Context) (err error) {
	if h.ran.Swap(true) {
		return ErrRunTwice
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.open(ctx); err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil // stopped before it served
		}
		return err
	}
	return h.serve(ctx)
}

// open opens the listener, the data directory, the store and the control plane.
func (h *Host) open(ctx context.Context) error {
	err := h.listen()
	if err != nil {
		return errors.Join(err, dataDirInUse(h.config.DataDir))
	}
	if err := h.openEgress(); err != nil {
		return err
	}
	if err := h.openDir(); err != nil {
		return err
	}
	var below errgroup.Group // a first start waits for the disk in both
	below.Go(func() error {
		for _, open := range [...]func() error{
			func() error { return h.openPKI(ctx) },
			h.openFrontProxy, h.openKubelets, // their flags may name files that openPKI creates
		} {
			if err := open(); err != nil {
				return err
			}
		}
		return nil
	})
	below.Go(func() error { return h.openStorage(ctx) })
	if err := below.Wait(); err != nil {
		return err
	}
	if err := h.startEncryption(ctx); err != nil {
		return err
	}
	if err := h.startFeed(); err != nil {
		return err
	}
	storage, network := &h.env.Storage, &h.env.Network
	storage.Backend, storage.Feed, storage.Overrides, storage.Shared = h.backend, h.feed, h.overrides, len(h.config.EtcdServers) > 0
	network.Address, network.PublicURL = strings.TrimPrefix(h.url(), "https://"), h.publicURL()
	network.Endpoint, network.Port, network.Hostname = h.config.endpoint(), h.port(), h.config.Hostname
	h.env.Telemetry.Defined = h.defines
	if err := h.openPeers(); err != nil {
		return err
	}
	h.env.Identity = controlplane.Identity{
		Authenticator:         authn.Union{h.frontProxy, h.clientCA},
		ClusterAuthentication: h.clusterAuthentication, ServingCA: h.ServingCA, ProxyCertificate: h.frontProxy.certificate, TokenKeys: h.tokenKeys,
		Signing:            h.signing,
		KubeletCertificate: h.kubelets.certificate, KubeletAuthorities: h.kubelets.authorities,
		StaticTokens: h.tokenUsers.static.User, ProviderTokens: h.tokenUsers.providerUser, TokenWebhook: h.tokenUsers.webhook, Anonymous: h.tokenUsers.anonymous,
	}
	if h.externalKeys != nil {
		h.env.Identity.MaxTokenLifetime = h.externalKeys.MaxLifetime()
	}
	if err := h.openAuthorization(); err != nil {
		return err
	}
	h.mu.Lock()
	h.mu.opened = true // the environment is complete
	h.mu.Unlock()
	if h.served, err = h.ControlPlane(h.config.EtcdPrefix, h.config.Options); err != nil {
		return err
	}
	return h.served.Open(ctx)
}

// openEgress reads how other servers are connected to.
func (h *Host) openEgress() (err error) {
	h.egress = &selector.Selector{}
	if file := h.config.EgressSelectorConfigFile; file != "" {
		if h.egress, err = selector.Open(file, h.egressMetrics); err != nil {
			return fmt.Errorf("--egress-selector-config-file: %w", err)
		}
	}
	h.env.Network.Networks = h.egress.Networks
	return nil
}

// openDir locks the data directory, if there is to be one.
func (h *Host) openDir() error {
	if h.config.InMemory {
		return nil
	}
	var err error
	if h.dir, err = openDataDir(h.config.DataDir); err != nil || len(h.config.EtcdServers) > 0 {
		return err
	}
	return h.dir.claimStore(h.config.NewStore)
}

// ControlPlane returns a control plane of this host below a prefix of its store; see
// controlplane.New. It may be called from Config.OnServing until Run returns, and is closed with
// the host. After its Close, the prefix can be reused. It is safe for concurrent use.
func (h *Host) ControlPlane(prefix string, options controlplane.Options) (*controlplane.ControlPlane, error) {
	folder := "/" + strings.Trim(prefix, "/") + "/"
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.closed {
		return nil, controlplane.ErrClosed
	}
	if !h.mu.opened {
		return nil, errors.New("the host does not run yet: open control planes from Config.OnServing on")
	}
	for other, plane := range h.mu.planes {
		if plane.Closed() {
			delete(h.mu.planes, other)
			continue
		}
		if strings.HasPrefix(other, folder) || strings.HasPrefix(folder, other) {
			return nil, fmt.Errorf("open a control plane at %s: there is one at %s", prefix, strings.TrimSuffix(other, "/"))
		}
	}
	opened, err := controlplane.New(h.env, prefix, options)
	if err != nil {
		return nil, err
	}
	h.mu.planes[folder] = opened
	return opened, nil
}

// each calls f for every control plane, without a lock: f may wait for one that calls each.
func (h *Host) each(f func(*controlplane.ControlPlane) error) error {
	h.mu.Lock()
	planes := slices.Collect(maps.Values(h.mu.planes))
	h.mu.Unlock()
	var errs []error
	for _, plane := range planes {
		errs = append(errs, f(plane))
	}
	return errors.Join(errs...)
}

// defines reports whether a definition of any control plane is of a resource.
func (h *Host) defines(resource schema.GroupResource) (defined bool) {
	_ = h.each(func(p *controlplane.ControlPlane) error { defined = defined || p.Defines(resource); return nil })
	return defined
}

// close closes all opened components in reverse order.
func (h *Host) close() error {
	var errs []error
	h.endTunnels()
	h.mu.Lock()
	h.mu.closed = true
	h.mu.Unlock()
	errs = append(errs, h.each(func(p *controlplane.ControlPlane) error { p.Close(); return nil }))
	if h.stopFeed != nil {
		h.stopFeed()
	}
	if h.stopEncryption != nil {
		h.stopEncryption()
	}
	if h.externalKeys != nil {
		errs = append(errs, h.externalKeys.Close())
	}
	if h.backend != nil {
		errs = append(errs, closeStore(h.backend))
	}
	for _, o := range h.overrides {
		errs = append(errs, closeStore(o.Backend))
	}
	if h.egress != nil {
		errs = append(errs, h.egress.Close())
	}
	errs = append(errs, h.env.Limits.Turns.Close())
	if h.config.Listener != nil {
		_ = h.config.Listener.Close() // closed already, where it was served
	}
	if h.dir != nil {
		errs = append(errs, h.dir.close())
	}
	return errors.Join(errs...)
}

func closeStore(backend kv.Backend) error {
	if err := backend.Close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}
