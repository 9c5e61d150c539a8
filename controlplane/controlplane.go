// Package controlplane is one Kubernetes API: the resources that are served, the
// definitions and registrations that add to them, who may do what, and the
// filters that every request passes, as one http.Handler over one prefix of a
// kv.Backend. What a process has once, however many control planes it serves
// (listener, data directory, store, keys, metrics), is the host's (package
// server), which hands it over as an Env.
//
// Imports: admission, admission/plugin, apis/aggregated, apis/bootstrap,
// apis/builtin, apis/builtin/all, apis/custom, apis/custom/conversion, codec,
// discovery, egress, endpoints, endpoints/apply, feature, filters,
// filters/authn, filters/authz, openapi, request, rest, route, storage,
// storage/cache, storage/factory, storage/follow, storage/kv, telemetry.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/endpoints"
)

// ControlPlane is one Kubernetes API. Until it is opened it is a few hundred
// bytes and has no goroutine; the first request opens it. Two of them on one
// host share its Env and nothing else: neither sees the other's objects. It is
// safe for concurrent use.
type ControlPlane struct {
	env     *Env
	prefix  string
	options Options

	// lifetime ends with Close, and with it whatever runs for the control plane.
	lifetime context.Context
	end      context.CancelFunc
	// opening is held by whoever opens or closes.
	opening *semaphore.Weighted
	opened  atomic.Pointer[instance]
}

// ErrClosed is returned by the Open of a control plane that was closed.
var ErrClosed = errors.New("the control plane is closed")

// New returns a control plane whose objects are kept below prefix, such as
// "/registry", or everything that is wrong with the options. No two control
// planes of a backend may have prefixes of which one contains the other. New
// touches neither backend nor network. Close must follow.
func New(env *Env, prefix string, options Options) (*ControlPlane, error) {
	options = options.WithDefaults()
	if err := errors.Join(env.check(), options.Check()); err != nil {
		return nil, err
	}
	c := &ControlPlane{env: env, prefix: prefix, options: options, opening: semaphore.NewWeighted(1)}
	c.lifetime, c.end = context.WithCancel(context.Background())
	return c, nil
}

// Open makes the control plane ready to serve: it loads what is stored that the
// server itself must know, and creates what every cluster has. It does nothing
// if that has been done; a request does it where nobody did before. When it
// fails, or ctx ends first, nothing is left behind, and it may be tried again.
func (c *ControlPlane) Open(ctx context.Context) error {
	if c.opened.Load() != nil {
		return nil
	}
	if err := c.opening.Acquire(ctx, 1); err != nil {
		return err
	}
	defer c.opening.Release(1)
	if c.opened.Load() != nil {
		return nil
	}
	if c.lifetime.Err() != nil {
		return ErrClosed
	}
	opened, err := newInstance(c)
	if err != nil {
		return fmt.Errorf("open the control plane at %s: %w", c.prefix, err)
	}
	if err := opened.start(ctx, c.lifetime); err != nil {
		return fmt.Errorf("open the control plane at %s: %w", c.prefix, err)
	}
	c.opened.Store(opened)
	return nil
}

// Close ends what runs for the control plane, and waits for that. Requests under
// way must have ended; later ones are refused. The backend stays open.
func (c *ControlPlane) Close() {
	c.end()
	_ = c.opening.Acquire(context.Background(), 1) // an Open under way ends with lifetime
	defer c.opening.Release(1)
	if opened := c.opened.Load(); opened != nil {
		opened.wait()
	}
}

// ServeHTTP answers a request by way of all filters.
func (c *ControlPlane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	opened := c.opened.Load()
	if opened == nil {
		if err := c.Open(r.Context()); err != nil {
			c.env.Logger.Error("a control plane cannot be opened", "prefix", c.prefix, "err", err)
			endpoints.WriteStatus(w, r, endpoints.StatusOf(apierrors.NewServiceUnavailable("the control plane cannot be opened now")))
			return
		}
		opened = c.opened.Load()
	}
	opened.handler.ServeHTTP(w, r)
}

// Withdraw takes back what tells clients to come to this process, before it
// stops. It does nothing before the control plane is open.
func (c *ControlPlane) Withdraw(ctx context.Context) error {
	if opened := c.opened.Load(); opened != nil {
		return opened.cluster.Withdraw(ctx)
	}
	return nil
}

// IdentityChanged takes up an Env.Identity that answers otherwise than before.
func (c *ControlPlane) IdentityChanged() error {
	opened := c.opened.Load()
	if opened == nil {
		return nil
	}
	data, err := c.env.Identity.ClusterAuthentication()
	if err != nil {
		return err
	}
	opened.clusterAuth.setWanted(data)
	return nil
}
