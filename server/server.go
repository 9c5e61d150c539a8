// Package server puts the rooms together into a Kubernetes API server: which
// filters in which order, how it listens, and in which order it starts and
// stops. A server is a value: it shares nothing with another one in the same
// process but the process. It answers for no resource itself.
//
// Imports: admission, admission/plugin, apis/aggregated, apis/builtin,
// apis/builtin/all, apis/custom, codec, discovery, egress, endpoints, endpoints/apply, filters, filters/authn,
// filters/authz, http2, openapi, pki, registry, request, rest, route, storage, storage/cache,
// storage/follow, storage/kv, storage/kv/embedded, storage/kv/etcd, telemetry.
package server

import (
	"context"
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/apis/aggregated"
	"mainstay.dev/mainstay/apis/custom"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/egress"
	"mainstay.dev/mainstay/filters"
	"mainstay.dev/mainstay/pki"
	"mainstay.dev/mainstay/storage"
	"mainstay.dev/mainstay/storage/cache"
	"mainstay.dev/mainstay/storage/follow"
	"mainstay.dev/mainstay/storage/kv"
	"mainstay.dev/mainstay/telemetry"
)

// Server is a Kubernetes API server. It is run once.
type Server struct {
	config         Config
	logger         *slog.Logger
	registry       *prometheus.Registry
	requests       *telemetry.Requests
	storageMetrics *storage.Metrics
	following      *follow.Metrics
	encodings      *codec.Memory
	drain          *filters.Drain
	paths          *paths
	checkPaths     []string // of single health checks

	ran      atomic.Bool
	stopping atomic.Bool // /readyz fails from here on

	// What a run adds, in the order of start.go.
	dir        *dataDir
	authority  *pki.Authority
	signer     crypto.Signer // of service account tokens
	files      *files
	certs      *certificates
	users      *users
	handshake  atomic.Pointer[tls.Config] // of connections to come; nil: as at the start
	kubeconfig string                     // the administrator's, as a path
	backend    kv.Backend
	feed       *cache.Feed // nil without a watch cache
	stopFeed   func()
	services   egress.Resolver // finds services for those that call them
	custom     *custom.Source
	stopCustom func()
	// customVersions are those that definitions define, until aggregated has
	// been told.
	customVersions []schema.GroupVersion
	aggregated     *aggregated.Source
	stopAggregated func()
	frontProxy     *frontProxy
	trust          *trust
	// tunnels is done when connections through this server are to end.
	tunnels    context.Context
	endTunnels context.CancelFunc
	api        api
}

// New returns a server, or everything that is wrong with the config. It touches
// neither the data directory nor the network.
func New(config Config) (*Server, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	registry := telemetry.NewRegistry(build(config.Version))
	storageMetrics, err := storage.NewMetrics(registry)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	following, err := follow.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	encodings, err := codec.NewMemory(codec.MemoryConfig{Limit: config.CacheMemoryLimit, Registerer: registry})
	if err != nil {
		return nil, err
	}
	tunnels, endTunnels := context.WithCancel(context.Background())
	return &Server{
		tunnels:        tunnels,
		endTunnels:     endTunnels,
		config:         config,
		logger:         config.Logger,
		registry:       registry,
		requests:       telemetry.NewRequests(registry),
		storageMetrics: storageMetrics,
		following:      following,
		files:          &files{logger: config.Logger},
		encodings:      encodings,
		drain:          filters.NewDrain(),
		paths:          newPaths(),
	}, nil
}

// ErrRunTwice is returned by a second Run.
var ErrRunTwice = errors.New("a server can be run only once")

// Run serves until ctx ends, then drains and returns nil. An error says what
// kept the server from starting, or from ending in good order.
func (s *Server) Run(ctx context.Context) (err error) {
	if s.ran.Swap(true) {
		return ErrRunTwice
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(ctx); err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil // stopped before it served
		}
		return err
	}
	return s.serve(ctx)
}

// open brings up what lies below the listener, unless ctx ends first.
func (s *Server) open(ctx context.Context) error {
	var err error
	if s.dir, err = openDataDir(s.config.DataDir); err != nil {
		return err
	}
	var below errgroup.Group // a first start waits for the disk in both
	below.Go(s.openPKI)
	below.Go(s.openFrontProxy)
	below.Go(func() error { return s.openStorage(ctx) })
	if err := below.Wait(); err != nil {
		return err
	}
	if err := s.startFeed(); err != nil {
		return err
	}
	if s.api, err = s.installAPI(); err != nil {
		return fmt.Errorf("install the API: %w", err)
	}
	s.startCustom()
	if err := s.bootstrap(context.Background()); err != nil {
		return fmt.Errorf("create what every cluster has: %w", err)
	}
	s.startAggregated()
	return s.installPaths()
}

// close takes down what open brought up, in reverse.
func (s *Server) close() error {
	var errs []error
	s.endTunnels()
	if s.stopAggregated != nil {
		s.stopAggregated()
	}
	if s.stopCustom != nil {
		s.stopCustom()
	}
	if s.stopFeed != nil {
		s.stopFeed()
	}
	if s.backend != nil {
		if err := s.backend.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close the store: %w", err))
		}
	}
	if s.dir != nil {
		errs = append(errs, s.dir.close())
	}
	return errors.Join(errs...)
}

// handler is what a request meets after the filters: resources and whatever
// else the API answers for, or else one of the server's own paths.
func (s *Server) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if own := s.paths.find(r.URL.Path); own != nil {
			own.ServeHTTP(w, r)
			return
		}
		s.api.Handler.ServeHTTP(w, r)
	})
}
