package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/faults"
	"mainstay.dev/mainstay/internal/host/http2"
	"mainstay.dev/mainstay/internal/telemetry"
)

// serve serves requests until ctx ends, and then shuts down.
func (h *Host) serve(ctx context.Context) error {
	httpServer, err := h.newHTTPServer(filters.Chain(h.handler(), filters.HeaderLimit(http2.MaxHeaderFields), filters.CloseChunked))
	if err != nil {
		return err
	}
	stopDebug, err := h.serveDebugSocket()
	if err != nil {
		return err
	}
	defer stopDebug()
	defer h.startRecorder(ctx)()
	defer h.startDiscovery(ctx)()
	listener := newWriteTimeoutListener(h.listener.Listener, writeTimeout)
	base := httpServer.TLSConfig.Clone()
	anyCA := base.Clone()
	anyCA.ClientCAs = nil
	h.anyCA.Store(anyCA)
	served := make(chan error, 1)
	go func() { served <- httpServer.ServeTLS(listener, "", "") }() // returns after Close or Shutdown

	if h.config.OnServing != nil {
		h.config.OnServing(Serving{URL: h.listener.url(), Kubeconfig: h.kubeconfig})
	}
	h.logger.Info("serving", "url", h.listener.url())
	if h.config.Testing.Faults != nil {
		h.logger.Warn("THIS IS A SERVER FOR TESTS: administrators can make requests fail and move the clock", "path", faults.Path)
	}

	daily := time.NewTicker(24 * time.Hour)
	defer daily.Stop()
	reload := time.NewTicker(reloadPeriod)
	defer reload.Stop()
	for {
		select {
		case <-ctx.Done():
			return h.shutDown(httpServer)
		case err := <-served:
			return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
		case <-daily.C:
			if err := errors.Join(h.identity.renew(), h.updateKubeconfig()); err != nil {
				h.logger.Error("renew certificates", "err", err)
			}
		case <-reload.C:
			if err := h.reloadFiles(base); err != nil {
				h.logger.Error("reload changed files", "err", err)
			}
		}
	}
}

// reloadFiles reloads changed files, and updates their dependents: the TLS configuration, the
// published cluster authentication and the kubeconfig.
func (h *Host) reloadFiles(base *tls.Config) error {
	if !h.reloader.reload() {
		return nil
	}
	// Clients choose a certificate by the CA names of the handshake.
	next := base.Clone()
	next.ClientCAs = h.identity.clientAuthorities()
	h.handshake.Store(next)
	err := errors.Join(h.planes.identityChanged(), h.identity.renewServing(), h.updateKubeconfig())
	if h.fleet != nil {
		h.fleet.AddressChanged()
	}
	return err
}

// updateKubeconfig writes the administrator's kubeconfig, if its content has changed. A full disk is
// not an error.
func (h *Host) updateKubeconfig() error {
	if h.config.Storage.InMemory {
		return nil
	}
	var err error
	h.kubeconfig, err = h.writeKubeconfig()
	if errors.Is(err, syscall.ENOSPC) {
		h.logger.Warn("the administrator's kubeconfig was not updated, because the disk is full", "file", h.kubeconfig, "err", err)
		return nil
	}
	return err
}

// withdrawTimeout is the timeout for the removal of this server's endpoint. If the removal fails, the lease
// of the endpoint expires later.
const withdrawTimeout = 5 * time.Second

// withdraw removes this server's endpoint.
func (h *Host) withdraw() {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	if err := h.served.Withdraw(ctx); err != nil {
		h.logger.Warn("the endpoint of this server cannot be removed: other servers need some seconds to notice that this server has stopped", "err", err)
	}
}

// shutDown stops serving. /readyz fails immediately. After ShutdownConfig.Delay, new requests are rejected
// and watches end within ShutdownConfig.WatchGracePeriod. Other requests may continue for the request
// timeout after this period.
func (h *Host) shutDown(httpServer *http.Server) error {
	h.stopping.Store(true)
	h.logger.Info("stopping")
	h.withdraw()
	time.Sleep(h.config.Shutdown.Delay)

	watches := h.config.Shutdown.WatchGracePeriod
	ctx, cancel := context.WithTimeout(context.Background(), watches+h.config.ControlPlane.Requests.Timeout)
	defer cancel()
	if h.config.Shutdown.SendRetryAfter {
		// The listener stays open, so that clients receive a Retry-After.
		h.drain.SendRetryAfter()
		h.drain.EndWatches(ctx, watches)
		h.drain.EndLongRunning()
		h.endTunnels()
		h.drain.RejectNew()
		h.awaitRequests(ctx)
	} else {
		h.drain.RejectNew()
		h.drain.EndWatches(ctx, watches)
		h.drain.EndLongRunning()
		h.endTunnels()
	}
	err := httpServer.Shutdown(ctx)
	h.awaitRequests(ctx) // requests with hijacked connections
	if err != nil {
		err = httpServer.Close()
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the listener: %w", err)
	}
	h.logger.Info("stopped")
	return nil
}

// awaitRequests waits until no request is in progress, or ctx ends.
func (h *Host) awaitRequests(ctx context.Context) {
	if err := h.drain.Wait(ctx); err != nil {
		h.logger.Warn("requests were still in progress and are aborted", "after", h.config.ControlPlane.Requests.Timeout)
	}
}

var errStopping = errors.New("the server is shutting down")

// shutdownCheck fails during shutdown, so that load balancers send no new clients.
func (h *Host) shutdownCheck() telemetry.Check {
	return telemetry.Check{Name: "shutdown", Run: func(context.Context) error {
		if h.stopping.Load() {
			return errStopping
		}
		return nil
	}}
}
