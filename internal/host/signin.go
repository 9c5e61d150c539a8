package host

import (
	"context"
	"sync"
	"time"

	"mainstay.dev/mainstay/internal/console"
)

// Intervals between reads of the discovery documents of OpenID Connect providers, after success and after an error.
const (
	discoveryInterval      = time.Hour
	discoveryRetryInterval = time.Minute
)

// startDiscovery reads the discovery documents of the OpenID Connect providers for the console, until ctx
// ends. The returned function stops it earlier and waits until it has stopped.
func (h *Host) startDiscovery(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	if h.identity.providers != nil && !h.config.Console.Disabled {
		running.Go(func() { h.identity.providers.discover(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// discover reads the discovery documents of the current providers immediately, at intervals, and after each
// change of the configuration, until ctx ends.
func (p *jwtProviders) discover(ctx context.Context) {
	for ctx.Err() == nil {
		interval := discoveryInterval
		if err := p.current.Load().Discover(ctx); err != nil && ctx.Err() == nil {
			interval = discoveryRetryInterval
			p.env.logger.Warn("the console does not offer the sign-in of an OpenID Connect provider, because its discovery document cannot be read", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-p.changed:
		case <-time.After(interval):
		}
	}
}

// signIns returns the OpenID Connect providers with which users can sign in to the console.
func (h *Host) signIns() []console.Provider {
	if h.identity.providers == nil {
		return nil
	}
	var offered []console.Provider
	for _, s := range h.identity.providers.current.Load().SignIns() {
		offered = append(offered, console.Provider(s))
	}
	return offered
}
