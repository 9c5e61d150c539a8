package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage/archive"
	"mainstay.dev/mainstay/internal/storage/backup"
	"mainstay.dev/mainstay/internal/storage/backup/target"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/encryption"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/driver"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/internal/storage/kv/etcd"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
)

// drivers returns the drivers of the storage backends. To add a backend, add a package in storage/kv and list
// its driver here.
func (c *StorageConfig) drivers(gates feature.Gates) driver.List {
	return driver.List{
		embedded.Driver(embedded.Config{
			Retention: c.Embedded.HistoryRetention, Quota: max(c.Embedded.Quota, 0), AcceptLostWrites: c.Embedded.AcceptLostWrites,
			Snapshot: c.Embedded.Snapshot,
		}),
		etcd.Driver(etcd.Config{
			CAFile: c.Etcd.TLS.CAFile, CertFile: c.Etcd.TLS.CertFile, KeyFile: c.Etcd.TLS.KeyFile,
			OpenTimeout: c.InitializationTimeout, CompactionInterval: c.Etcd.CompactionInterval, LeaseReuse: c.Etcd.LeaseReuse, SizeInterval: c.Etcd.SizeInterval,
			NoRangeStream: !gates.Enabled(feature.EtcdRangeStream),
		}),
	}
}

// overrideDrivers returns the drivers for an override with the given URLs. The TLS settings of --etcd-servers
// are not used for a store without TLS.
func (c *StorageConfig) overrideDrivers(gates feature.Gates, urls []string) driver.List {
	config := *c
	if strings.HasPrefix(urls[0], "http:") {
		config.Etcd.TLS = EtcdTLSConfig{}
	}
	return config.drivers(gates)
}

// urls returns the URLs of the store. storeDir is the directory of the embedded store.
func (c *StorageConfig) urls(storeDir string) []string {
	switch {
	case len(c.Etcd.Servers) > 0:
		return c.Etcd.Servers
	case c.InMemory:
		return []string{embedded.MemoryURL}
	}
	return []string{embedded.URL(storeDir)}
}

// checkServers validates the URLs of --etcd-servers and of its overrides.
func (c *StorageConfig) checkServers(gates feature.Gates) error {
	if len(c.Etcd.Servers) == 0 {
		if c.Etcd.TLS != (EtcdTLSConfig{}) || len(c.Etcd.Overrides) > 0 {
			return errors.New("--etcd-cafile, --etcd-certfile, --etcd-keyfile and --etcd-servers-overrides need --etcd-servers")
		}
		return nil
	}
	_, err := parseOverrides(c.Etcd.Overrides, (&StorageConfig{}).drivers(gates))
	if _, problem := findShared(c.drivers(gates), c.Etcd.Servers); problem != nil {
		err = errors.Join(fmt.Errorf("--etcd-servers: %w", problem), err)
	}
	return err
}

// storeEnv is the environment of a store.
type storeEnv struct {
	gates   feature.Gates
	dir     *dataDir // nil without a data directory
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	pressed func() bool // reports a lack of memory; may be nil
	// encodings contains the cached encodings of objects.
	encodings  *codec.EncodingCache
	registry   prometheus.Registerer
	cache      *cache.Metrics
	crypto     *encryption.Metrics
	logger     *slog.Logger
	simulation *simulation.Simulation // nil for the real clock
}

// store is an open store with its change feeds, its overrides and the encryption of values.
type store struct {
	config    *StorageConfig
	env       storeEnv
	backend   kv.Backend
	shared    bool             // other processes may use the backend
	history   *archive.Archive // nil without a history
	backup    *backup.Writer   // nil without a backup
	overrides []controlplane.Override
	feed      *cache.Feed // nil without a watch cache
	// fleet wraps backend. It adds the bases of the control planes that objects declare.
	fleet *overlay.Backend
	// fleetFeed is the change feed of the keys below fleetPrefix. These keys have their own feed, so that
	// writes to these control planes do not delay consistent reads of the root control plane.
	fleetFeed *cache.Feed
	crypto    *encryption.Transformers // nil without encryption

	// stop ends the goroutines that running counts.
	stop    context.CancelFunc
	running sync.WaitGroup
}

// openStore opens the backends. It blocks until they respond, or ctx ends. The caller must call close, even
// if start returns an error.
func openStore(ctx context.Context, config *StorageConfig, env storeEnv) (*store, error) {
	s := &store{config: config, env: env, stop: func() {}}
	var dir string
	if env.dir != nil {
		dir = env.dir.store()
	}
	urls := config.urls(dir)
	d, err := config.drivers(env.gates).Find(urls)
	if err != nil {
		return nil, err
	}
	s.shared = d.Shared
	if err := s.openHistory(); err != nil {
		return nil, err
	}
	main := s.driverConfig(urls, "")
	if s.history != nil {
		main.Held = s.history.Position()
	}
	s.backend, err = d.Open(ctx, main)
	if err != nil {
		if s.history != nil {
			err = errors.Join(err, s.history.Close())
		}
		if d.InDataDir && env.dir != nil {
			err = env.dir.explainStore(err)
		}
		return nil, err
	}
	s.fleet = overlay.New(s.backend)
	if err := errors.Join(s.startHistory(ctx), s.startBackup(), s.openOverrides(ctx)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// startHistory makes the history follow the backend. If the history belongs to another store, startHistory
// renames its folder and creates a new history, because the objects do not depend on the history.
func (s *store) startHistory(ctx context.Context) error {
	if s.history == nil {
		return nil
	}
	err := s.history.Start(ctx, s.backend)
	if !errors.Is(err, archive.ErrOtherStore) || s.env.dir == nil {
		return err
	}
	moved, failed := s.env.dir.moveHistory(s.history.Close)
	if failed != nil {
		return errors.Join(err, failed)
	}
	s.env.logger.Warn("the history belongs to another store: it was renamed, and a new history begins", "err", err, "to", moved)
	if err := s.openHistory(); err != nil {
		return err
	}
	return s.history.Start(ctx, s.backend)
}

// Limits of the time between two flushes of the history. The store cannot compact changes that the history
// has not flushed.
const (
	minHistoryFlush = 100 * time.Millisecond
	maxHistoryFlush = time.Minute
)

// openHistory opens the history, if it is enabled. It is opened before the backend, because the backend
// must hold the changes that are not in the history.
func (s *store) openHistory() (err error) {
	history := &s.config.History
	if !history.enabled() {
		return nil
	}
	config := archive.Config{
		InMemory: s.env.dir == nil, Prefix: s.rootPrefix(), Policy: history.policy(), Logger: s.env.logger, Registerer: s.env.registry,
	}
	if retention := s.config.Embedded.HistoryRetention; retention > 0 {
		config.FlushInterval = min(max(retention/4, minHistoryFlush), maxHistoryFlush)
	}
	if s.env.dir != nil {
		config.Dir = s.env.dir.history()
	}
	s.history, err = archive.Open(config)
	return err
}

// startBackup starts the backup, if it is enabled.
func (s *store) startBackup() error {
	config := &s.config.Backup
	if config.To == "" {
		return nil
	}
	to, err := target.Open(config.To)
	if err != nil {
		return fmt.Errorf("--backup-to: %w", err)
	}
	s.backup, err = backup.Start(backup.Config{
		Backend: s.backend, Target: to, Interval: config.Interval, BaseInterval: config.BaseInterval, Retention: config.Retention,
		Recipients: config.Recipients, Logger: s.env.logger, Registerer: s.env.registry,
	})
	return err
}

// lastUpload is the timeout for uploading the newest changes when the server stops.
const lastUpload = 5 * time.Second

// closeBackup uploads the newest changes.
func (s *store) closeBackup() {
	if s.backup == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastUpload)
	defer cancel()
	if err := s.backup.Close(ctx); err != nil {
		// The next start uploads the missing changes.
		s.env.logger.Warn("the backup is incomplete", "err", err)
	}
}

func (s *store) driverConfig(urls []string, id string) driver.Config {
	return driver.Config{
		URLs: urls, Prefix: s.config.Prefix, ID: id,
		Dial: s.env.dial, Logger: s.env.logger, Registerer: s.env.registry, Simulation: s.env.simulation,
	}
}

// openOverrides opens the separate stores of individual resources.
func (s *store) openOverrides(ctx context.Context) error {
	overrides, err := parseOverrides(s.config.Etcd.Overrides, (&StorageConfig{}).drivers(s.env.gates))
	if err != nil {
		return err
	}
	for i, o := range overrides {
		o.resources = slices.DeleteFunc(o.resources, func(r schema.GroupResource) bool {
			ignored := !controlplane.Overridable(r)
			if ignored {
				s.env.logger.Warn("ignoring an override in --etcd-servers-overrides: the resource cannot be stored elsewhere", "resource", r.String())
			}
			return ignored
		})
		d, err := s.config.overrideDrivers(s.env.gates, o.urls).Find(o.urls)
		if err != nil {
			return fmt.Errorf("--etcd-servers-overrides: %w", err)
		}
		backend, err := d.Open(ctx, s.driverConfig(o.urls, fmt.Sprintf("etcd-%d", i+1)))
		if err != nil {
			return fmt.Errorf("--etcd-servers-overrides: %w", err)
		}
		s.overrides = append(s.overrides, controlplane.Override{Resources: o.resources, Backend: backend})
	}
	return nil
}

// start starts the encryption and the change feeds, which run until close. It blocks until the
// encryption plugins respond, or ctx ends.
func (s *store) start(ctx context.Context) error {
	running, stop := context.WithCancel(context.Background())
	s.stop = stop
	if err := s.startEncryption(ctx, running); err != nil {
		return err
	}
	if s.config.DisableWatchCache {
		return nil
	}
	var err error
	if s.feed, err = s.startFeed(running, s.backend, s.feedPrefix()); err != nil {
		return err
	}
	if s.env.gates.Enabled(feature.ControlPlanes) {
		if s.fleetFeed, err = s.startFeed(running, s.fleet, s.fleetPrefix()); err != nil {
			return err
		}
	}
	for i := range s.overrides {
		if s.overrides[i].Feed, err = s.startFeed(running, s.overrides[i].Backend, s.feedPrefix()); err != nil {
			return err
		}
	}
	return nil
}

// startEncryption reads the encryption configuration. Until running ends, it checks the KMS plugins for new
// keys and, if Reload is set, applies changes of the file.
func (s *store) startEncryption(ctx, running context.Context) error {
	config := s.config.Encryption
	if config.File == "" {
		return nil
	}
	transformers, err := encryption.Open(ctx, encryption.Options{File: config.File, Reload: config.Reload, Metrics: s.env.crypto, Logger: s.env.logger})
	if err != nil {
		return fmt.Errorf("--encryption-provider-config: %w", err)
	}
	s.crypto = transformers
	s.running.Go(func() { transformers.Run(running) }) // stops in close
	return nil
}

// keys returns the mapping from the keys of encrypted values to resources, or nil without encryption.
func (s *store) keys() *controlplane.Keys {
	if s.crypto == nil {
		return nil
	}
	return controlplane.NewKeys(s.config.Prefix)
}

// openScratch opens an empty store in memory.
func openScratch() (kv.Backend, error) { return embedded.Open(embedded.Config{InMemory: true}) }

// fleetPrefix returns the prefix of the keys of the control planes that objects declare.
func (s *store) fleetPrefix() string {
	return controlplanes.KeyPrefix(s.config.Prefix)
}

// rootPrefix returns the prefix of the keys of the root control plane, with a slash at its end.
func (s *store) rootPrefix() string { return "/" + strings.Trim(s.config.Prefix, "/") + "/" }

// startFeed starts the change feed of the keys in backend that have the given prefix.
func (s *store) startFeed(running context.Context, backend kv.Backend, prefix string) (*cache.Feed, error) {
	feed, err := cache.NewFeed(cache.FeedConfig{
		Backend: backend, Prefix: prefix, Logger: s.env.logger, Metrics: s.env.cache, MemoryPressure: s.env.pressed, Encodings: s.env.encodings,
	})
	if err != nil {
		return nil, fmt.Errorf("start the watch cache: %w", err)
	}
	s.running.Go(func() { // stops in close
		if err := feed.Run(running); err != nil {
			s.env.logger.Error("the watch cache stopped following the store", "err", err)
		}
	})
	return feed, nil
}

// feedPrefix returns the prefix of the change feed. It covers all keys, except in a shared store, which may
// have other users; there it covers the keys below --etcd-prefix.
func (s *store) feedPrefix() string {
	if s.shared {
		return s.config.Prefix
	}
	return "/"
}

// hold protects the newest revision of the store from compaction until the caller calls release.
func (s *store) hold(ctx context.Context) (revision int64, release func(), err error) {
	held, release, err := s.backend.Hold(ctx, 0)
	return int64(held), release, err
}

// close ends the goroutines and closes the backends.
func (s *store) close() error {
	s.stop()
	s.running.Wait()
	s.closeBackup()
	var errs []error
	if s.history != nil {
		errs = append(errs, s.history.Close())
	}
	for _, backend := range append([]kv.Backend{s.backend}, backendsOf(s.overrides)...) {
		if err := backend.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close the store: %w", err))
		}
	}
	return errors.Join(errs...)
}

func backendsOf(overrides []controlplane.Override) []kv.Backend {
	var backends []kv.Backend
	for _, o := range overrides {
		backends = append(backends, o.Backend)
	}
	return backends
}
