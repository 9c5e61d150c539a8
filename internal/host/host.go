// Package host runs control planes in a process. It owns the listener, TLS, the data directory, the
// store, keys and certificates, and metrics, and determines the order of startup and shutdown.
// Package controlplane implements the Kubernetes API; a host opens one control plane and can open
// more. Hosts in one process are independent.
package host

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/console"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/egress/selector"
	"mainstay.dev/mainstay/internal/endpoints/apply/ownership"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/host/fleet"
	"mainstay.dev/mainstay/internal/limits/memory"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/storage/encryption"
	"mainstay.dev/mainstay/internal/telemetry"
	"mainstay.dev/mainstay/internal/telemetry/recent"
)

// Host runs control planes. It serves the control plane below StorageConfig.Prefix on the listener;
// ControlPlane opens others. A host can be run only once.
type Host struct {
	config    Config
	logger    *slog.Logger
	metrics   *metrics
	recorder  *recent.Recorder     // records metrics
	encodings *codec.EncodingCache // limits the memory of cached encodings
	memory    *memory.Budget       // limits the memory of large requests
	reloader  *fileReloader
	planes    planes

	// drain tracks requests in progress. tunnels is canceled to close upgraded connections.
	drain      *filters.Drain
	tunnels    context.Context
	endTunnels context.CancelFunc
	ran        atomic.Bool // Run was called
	stopping   atomic.Bool // /readyz fails

	// The components below are opened by Run.
	listener *listener
	egress   *selector.Selector
	tracing  tracing
	dir      *dataDir // nil without a data directory
	identity *identity
	store    *store
	served   *controlplane.ControlPlane
	fleet    *fleet.Fleet // nil if the feature gate is disabled
	// kubeconfig is the path of the administrator's kubeconfig; "" without a data directory.
	kubeconfig string
	// handshake is the TLS configuration of new connections; nil until files have changed.
	handshake atomic.Pointer[tls.Config]
	// anyCA is the TLS configuration of handshakes that do not name the accepted CAs; see
	// handshakeConfig.
	anyCA atomic.Pointer[tls.Config]
}

// New returns a host, or all errors of the config. It reads configuration files, but accesses neither the
// data directory nor the network.
func New(config Config) (*Host, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	h := &Host{config: config, logger: config.Logger, drain: filters.NewDrain(), reloader: &fileReloader{logger: config.Logger}}
	if h.metrics, err = newMetrics(&config); err != nil {
		return nil, err
	}
	h.recorder = recent.New(h.metrics.registry.Recorded(), time.Now)
	h.encodings, err = codec.NewEncodingCache(codec.EncodingCacheConfig{Limit: config.Limits.CacheMemory, Registerer: h.metrics.registry})
	if err != nil {
		return nil, err
	}
	if h.memory, err = memory.NewBudget(config.Limits.Memory, h.metrics.registry); err != nil {
		return nil, err
	}
	if faults := config.Testing.Faults; faults != nil {
		faults.HoldRevision = func(ctx context.Context) (int64, func(), error) { return h.store.hold(ctx) }
		h.config.ControlPlane.Filter = faults.Filter
	}
	h.tunnels, h.endTunnels = context.WithCancel(context.Background())
	return h, nil
}

// ErrRunTwice is returned by Host.Run if it was called before.
var ErrRunTwice = errors.New("a server can be run only once")

// Run serves until ctx ends, waits for requests in progress, and returns nil. It returns an error if
// the server cannot start or cannot shut down cleanly, and ErrRunTwice if it was run before.
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

// open opens the components in the order of startup. close closes them, even if open returns an error.
func (h *Host) open(ctx context.Context) (err error) {
	config := &h.config
	if h.listener, err = openListener(&config.Listen, h.logger); err != nil {
		return errors.Join(err, dataDirInUse(config.Storage.DataDir))
	}
	if h.egress, err = config.Egress.open(h.metrics.egress); err != nil {
		return err
	}
	h.warnOfFlags()
	if err := h.openTracing(); err != nil {
		return err
	}
	if err := h.openDataDir(); err != nil {
		return err
	}
	// The identity and the store are opened concurrently, because both wait for the disk on the first start.
	var opening errgroup.Group
	opening.Go(func() (err error) {
		if h.identity, err = openIdentity(ctx, config, h.dir.pki(), h.egress, h.reloader, h.metrics); err != nil {
			return err
		}
		return h.updateKubeconfig()
	})
	opening.Go(func() (err error) {
		h.store, err = openStore(ctx, &config.Storage, h.storeEnv())
		return err
	})
	if err := opening.Wait(); err != nil {
		return err
	}
	if err := h.metrics.registry.Register(newCertificateExpiry(h.identity)); err != nil {
		return err
	}
	if err := h.store.start(ctx); err != nil {
		return err
	}
	authorization, err := config.Authorization.open(authorizationEnv{
		egress: h.egress, reloader: h.reloader, metrics: h.metrics.authorizers, reloads: h.metrics.authorizationReloads,
	})
	if err != nil {
		return err
	}
	env := h.controlPlaneEnv(authorization)
	h.planes.setEnv(env)
	return h.openControlPlanes(ctx, env)
}

// openControlPlanes opens the root control plane, and starts the control planes that its objects declare.
func (h *Host) openControlPlanes(ctx context.Context, env *controlplane.Env) (err error) {
	options := h.config.ControlPlane
	declared := options.Gates().Enabled(feature.ControlPlanes)
	if declared {
		options.Definitions = []*controlplane.Definition{fleet.Definition()}
	}
	if h.served, err = h.ControlPlane(h.config.Storage.Prefix, options); err != nil {
		return err
	}
	if err := h.served.Open(ctx); err != nil || !declared {
		return err
	}
	h.fleet, err = fleet.Start(fleet.Config{
		Root: h.served, Env: env, Options: h.config.ControlPlane, Prefix: h.store.fleetPrefix(), RootPrefix: h.store.rootPrefix(), Idle: h.config.ControlPlanes.Idle,
		Backend: h.store.fleet, Keys: h.store.keys(), Scratch: openScratch, Feed: h.store.fleetFeed, Metrics: h.metrics.fleet,
	})
	return err
}

// handler returns the handler of all requests.
func (h *Host) handler() http.Handler {
	var handler http.Handler = h.served
	if h.fleet != nil {
		handler = h.fleet.Handler(handler)
	}
	if !h.config.Console.Disabled {
		handler = console.Handler(h.signIns, handler)
	}
	return handler
}

// defines reports whether any control plane defines a custom resource.
func (h *Host) defines(resource schema.GroupResource) bool {
	return h.planes.defines(resource) || h.fleet != nil && h.fleet.Defines(resource)
}

// warnOfFlags logs a warning for each flag whose value has a different effect than in kube-apiserver.
func (h *Host) warnOfFlags() {
	if h.config.Storage.Backend == BackendEtcd3 && len(h.config.Storage.Etcd.Servers) == 0 {
		h.logger.Warn("--storage-backend=etcd3 is set without --etcd-servers: objects are stored in the embedded store")
	}
	if h.config.Authentication.RequestHeader.isIgnored() {
		h.logger.Warn("the other --requestheader-... flags have no effect without --requestheader-client-ca-file")
	}
	if h.config.ControlPlane.Services.EndpointReconciler == controlplane.EndpointsByMasterCount {
		h.logger.Warn("--endpoint-reconciler-type=master-count has the same effect as lease: the endpoints are those of the running servers")
	}
}

// openDataDir locks the data directory, unless all data is in memory. It claims the directory of the
// embedded store before keys are created, because keys without a store indicate a lost store.
func (h *Host) openDataDir() error {
	config := &h.config.Storage
	if config.InMemory {
		return nil
	}
	var err error
	if h.dir, err = openDataDir(config.DataDir); err != nil || len(config.Etcd.Servers) > 0 {
		return err
	}
	return h.dir.claimStore(config.Embedded.NewStore)
}

func (h *Host) storeEnv() storeEnv {
	return storeEnv{
		gates: h.config.ControlPlane.Gates(), dir: h.dir, dial: h.egress.Etcd, pressed: h.config.Limits.MemoryPressed, encodings: h.encodings,
		registry: h.metrics.registry, cache: h.metrics.cache, crypto: h.metrics.encryption,
		logger: h.logger, simulation: h.config.Testing.Simulation,
	}
}

// controlPlaneEnv returns the environment of the control planes. All components must be open.
func (h *Host) controlPlaneEnv(authorization controlplane.Authorization) *controlplane.Env {
	config := &h.config
	serviceIP := config.ControlPlane.Services.FirstIP()
	env := &controlplane.Env{
		Storage: controlplane.Storage{
			Backend: h.store.backend, Feed: h.store.feed, Overrides: h.store.overrides, Shared: h.store.shared, Encodings: h.encodings,
			History: h.store.history,
		},
		Limits:        controlplane.Limits{Memory: h.memory, Validations: validationLimiter()},
		Identity:      h.identity.controlPlane(),
		Authorization: authorization,
		Network: controlplane.Network{
			Networks: h.egress.Networks, Address: h.listener.hostPort(), PublicURL: h.listener.publicURL(), ExternalAddress: h.listener.externalAddress(),
			Endpoint: config.Listen.endpoint(serviceIP), Port: h.listener.port(), Hostname: config.Listen.Hostname, PeerAuthorities: h.identity.peers,
		},
		Health:    controlplane.Health{Ready: []telemetry.Check{h.shutdownCheck()}, Metrics: telemetry.NewHealthMetrics(h.metrics.slis)},
		Shutdown:  controlplane.Shutdown{Drain: h.drain, Tunnels: h.tunnels},
		Telemetry: controlplane.Telemetry{Logger: h.logger, Requests: h.metrics.requests, Metrics: h.metrics.controlPlane, Tracer: h.tracing.tracer(), Defined: h.defines},
		Paths:     h.paths(), TypeConverter: openapi.NewTypeConverter(), Ownership: &ownership.Cache{}, Version: config.Version, Simulation: config.Testing.Simulation,
	}
	if running := h.store.backup; running != nil {
		env.Health.Ready = append(env.Health.Ready, telemetry.Check{
			Name: "backup", Informational: true, Run: func(context.Context) error { return running.Check() },
		})
	}
	if crypto := h.store.crypto; crypto != nil {
		env.Storage.Transformer = crypto.For
		if crypto.HasCheck() {
			env.Health.Storage = []telemetry.Check{{Name: encryption.CheckName, Run: crypto.Check}}
		}
		if config.Storage.Encryption.Reload {
			env.Health.Hooks = []string{"start-encryption-provider-config-automatic-reload"}
		}
	}
	return env
}

// validationLimiter returns the limiter for validations that use milliseconds of CPU, for example of
// CustomResourceDefinitions. It leaves one processor for other requests, unless there is only one.
func validationLimiter() registry.Limiter {
	return semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)-1)))
}

// ControlPlane returns a control plane of this host below a prefix of its store; see controlplane.New. It
// may be called in Config.OnServing and afterwards, until Run returns. It returns an error if the host is
// not running or the prefix overlaps with the prefix of another control plane, and the errors of
// controlplane.New. After the host has stopped, it returns controlplane.ErrClosed. The host closes the
// control plane when it stops. After the control plane is closed, the prefix can be used again.
// ControlPlane is safe for concurrent use.
func (h *Host) ControlPlane(prefix string, options controlplane.Options) (*controlplane.ControlPlane, error) {
	return h.planes.open(prefix, options)
}

// close closes the open components in reverse order.
func (h *Host) close() error {
	var errs []error
	h.endTunnels()
	if h.fleet != nil {
		h.fleet.Close()
	}
	h.planes.close()
	if h.store != nil {
		errs = append(errs, h.store.close())
	}
	if h.identity != nil {
		errs = append(errs, h.identity.close())
	}
	errs = append(errs, h.tracing.close())
	if h.egress != nil {
		errs = append(errs, h.egress.Close())
	}
	if h.listener != nil {
		_ = h.listener.Close() // already closed if it was served
	}
	if h.dir != nil {
		errs = append(errs, h.dir.close())
	}
	return errors.Join(errs...)
}
