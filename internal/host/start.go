package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/faults"
	"mainstay.dev/mainstay/internal/host/http2"
	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/encryption"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/internal/telemetry"
)

// openPKI loads or creates keys and certificates, and writes the administrator's
// kubeconfig.
func (h *Host) openPKI(ctx context.Context) error {
	var err error
	if h.authority, err = pki.Open(h.dir.pki()); err != nil {
		return err
	}
	if err = h.openTokenKeys(ctx); err != nil {
		return err
	}
	if err = h.openTokenUsers(); err != nil {
		return err
	}
	if h.certs, err = newCertificates(h.config.TLS, h.reloader); err != nil {
		return err
	}
	if err := h.openClientCA(); err != nil {
		return err
	}
	if err := h.openSigning(); err != nil {
		return err
	}
	return h.renew()
}

func (h *Host) openStorage(ctx context.Context) error {
	if len(h.config.EtcdServers) > 0 {
		return h.openEtcd(ctx)
	}
	config := embedded.Config{
		InMemory:         h.config.InMemory,
		Retention:        h.config.HistoryRetention,
		Quota:            max(h.config.StorageQuota, 0),
		AcceptLostWrites: h.config.AcceptLostWrites,
		Logger:           h.logger,
		Registerer:       h.registry,
		World:            h.config.World,
	}
	if !config.InMemory {
		config.Dir = h.dir.store()
	}
	store, err := embedded.Open(config)
	if err != nil && !config.InMemory {
		err = h.dir.explainStore(err)
	}
	if err != nil {
		return err
	}
	h.backend = store
	return nil
}

// startFeed starts the change feeds of the watch caches, one for each store. stopFeed stops
// them.
func (h *Host) startFeed() error {
	if h.config.WithoutWatchCache {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	h.stopFeed = func() { cancel(); running.Wait() }
	start := func(backend kv.Backend) (*cache.Feed, error) {
		feed, err := cache.NewFeed(cache.FeedConfig{Backend: backend, Prefix: h.feedPrefix(), Logger: h.logger, Metrics: h.cacheMetrics, Pressed: h.config.MemoryPressed})
		if err != nil {
			return nil, fmt.Errorf("start the watch cache: %w", err)
		}
		running.Go(func() { // ends with stopFeed
			if err := feed.Run(ctx); err != nil {
				h.logger.Error("the watch cache stopped following the store", "err", err)
			}
		})
		return feed, nil
	}
	var err error
	if h.feed, err = start(h.backend); err != nil {
		return err
	}
	for n := range h.overrides {
		if h.overrides[n].Feed, err = start(h.overrides[n].Backend); err != nil {
			return err
		}
	}
	return nil
}

// startEncryption reads how values are encrypted, and follows that. stopEncryption ends
// it.
func (h *Host) startEncryption(ctx context.Context) error {
	if h.config.EncryptionConfigFile == "" {
		return nil
	}
	transformers, err := encryption.Open(ctx, encryption.Options{
		File: h.config.EncryptionConfigFile, Reload: h.config.EncryptionConfigReload, Metrics: h.encryptionMetrics, Logger: h.logger,
	})
	if err != nil {
		return fmt.Errorf("--encryption-provider-config: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // ends with stopEncryption
		defer close(done)
		transformers.Run(ctx)
	}()
	h.stopEncryption = func() { cancel(); <-done }
	h.env.Storage.Transformer = transformers.For
	if transformers.HasCheck() {
		h.env.Health.Storage = []telemetry.Check{{Name: encryption.CheckName, Run: transformers.Check}}
	}
	if h.config.EncryptionConfigReload {
		h.env.Health.Hooks = []string{"start-encryption-provider-config-automatic-reload"}
	}
	return nil
}

// feedPrefix returns the prefix that the feed watches: all of the embedded store, or the keys below
// --etcd-prefix of etcd, which may have other users.
func (h *Host) feedPrefix() string {
	if len(h.config.EtcdServers) > 0 {
		return h.config.EtcdPrefix
	}
	return "/"
}

// serve serves until ctx ends, then drains.
func (h *Host) serve(ctx context.Context) error {
	httpServer, err := h.newHTTPServer(filters.Chain(h.served, filters.HeaderLimit(http2.MaxHeaderFields), filters.CloseChunked))
	if err != nil {
		return err
	}
	listener := newWriteTimeoutListener(bulkListener{Listener: socketListener{h.config.Listener}, turns: h.env.Limits.Turns}, writeTimeout)
	base := httpServer.TLSConfig.Clone()
	served := make(chan error, 1)
	go func() { served <- httpServer.ServeTLS(listener, "", "") }() // ends with Close or Shutdown below

	if h.config.OnServing != nil {
		h.config.OnServing(Serving{URL: h.url(), Kubeconfig: h.kubeconfig})
	}
	h.logger.Info("serving", "url", h.url())
	if h.config.Faults != nil {
		h.logger.Warn("THIS IS A SERVER FOR TESTS: administrators can make requests fail and move the clock", "path", faults.Path)
	}

	daily := time.NewTicker(24 * time.Hour)
	defer daily.Stop()
	reload := time.NewTicker(reloadPeriod)
	defer reload.Stop()
	for {
		select {
		case <-ctx.Done():
			return h.stop(httpServer)
		case err := <-served:
			return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
		case <-daily.C:
			if err := errors.Join(h.renew(), h.frontProxy.renew()); err != nil {
				h.logger.Error("renew certificates", "err", err)
			}
		case <-reload.C:
			if err := h.reloadFiles(base); err != nil {
				h.logger.Error("follow changed files", "err", err)
			}
		}
	}
}

// renew renews the certificates of the server's own CA that are about to expire,
// and writes the administrator's kubeconfig to match.
func (h *Host) renew() error {
	if h.certs.file == nil {
		own, err := h.authority.Serving(h.config.hosts())
		if err != nil {
			return err
		}
		h.certs.setOwn(own)
	}
	if left := time.Until(h.authority.Ends()); left < 365*24*time.Hour {
		h.logger.Warn("the certificate authority ends within a year", "ends", h.authority.Ends(), "folder", h.dir.pki())
	}
	if h.config.InMemory {
		return nil // Kubeconfig returns one
	}
	var err error
	h.kubeconfig, err = h.writeKubeconfig()
	if errors.Is(err, syscall.ENOSPC) {
		h.logger.Warn("the administrator's kubeconfig stays as it was, since the disk is full", "file", h.kubeconfig, "err", err)
		return nil
	}
	return err
}

// stop shuts down: /readyz fails immediately; after --shutdown-delay, new requests are rejected;
// watches end immediately, other requests within the request timeout.
func (h *Host) stop(httpServer *http.Server) error {
	h.stopping.Store(true)
	h.logger.Info("stopping")
	h.withdraw()
	time.Sleep(h.config.ShutdownDelay)

	drainCtx, cancel := context.WithTimeout(context.Background(), h.config.RequestTimeout)
	defer cancel()
	if h.config.ShutdownRetryAfter {
		// The listener stays open so that clients get a Retry-After.
		h.drain.SendRetryAfter()
		h.drain.EndLongRunning()
		h.endTunnels()
		h.drain.Refuse()
		h.awaitRequests(drainCtx)
	} else {
		h.drain.Refuse()
		h.drain.EndLongRunning()
		h.endTunnels()
	}
	err := httpServer.Shutdown(drainCtx)
	h.awaitRequests(drainCtx) // those with hijacked connections
	if err != nil {
		err = httpServer.Close()
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the listener: %w", err)
	}
	h.logger.Info("stopped")
	return nil
}

func (h *Host) awaitRequests(ctx context.Context) {
	if err := h.drain.Wait(ctx); err != nil {
		h.logger.Warn("requests were still under way and are broken off", "after", h.config.RequestTimeout)
	}
}
