// Package controlplane implements a Kubernetes API: resources, definitions, registrations,
// authorization and filters, as an http.Handler over a prefix of a kv.Backend. The host (package
// host) owns the resources of the process (listener, data directory, store, keys, metrics) and
// passes them as an Env.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/simulation"
)

// ControlPlane is one Kubernetes API. Before it is opened, it uses a few hundred bytes and no
// goroutine; the first request opens it. Two control planes of a host share only its Env and are
// isolated from each other. It is safe for concurrent use.
type ControlPlane struct {
	env     *Env
	prefix  string
	options Options

	// lifetime is done with Close; all goroutines of the control plane end with
	// it.
	lifetime context.Context
	end      context.CancelFunc
	// opening is held during Open and Close.
	opening *semaphore.Weighted
	opened  atomic.Pointer[instance]
	closed  atomic.Bool // Close has returned
}

// ErrClosed is returned by the Open of a control plane that was closed.
var ErrClosed = errors.New("the control plane is closed")

// New returns a control plane whose objects are stored below prefix, such as "/registry", or all
// errors of the options. No prefix of a control plane may contain another one of the same backend.
// New accesses neither backend nor network. The caller must call Close.
func New(env *Env, prefix string, options Options) (*ControlPlane, error) {
	options = options.WithDefaults()
	if err := errors.Join(env.check(), options.Check()); err != nil {
		return nil, err
	}
	c := &ControlPlane{env: env, prefix: prefix, options: options, opening: semaphore.NewWeighted(1)}
	c.lifetime, c.end = context.WithCancel(simulation.With(context.Background(), env.World))
	return c, nil
}

// Open makes the control plane ready to serve: it loads definitions and registrations, and creates
// the objects of every cluster. It returns nil if the control plane is already open; ServeHTTP
// calls it otherwise. If it fails, or ctx ends first, nothing continues to run, and it can be
// called again.
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
	if err := opened.start(simulation.With(ctx, c.env.World), c.lifetime); err != nil {
		return fmt.Errorf("open the control plane at %s: %w", c.prefix, err)
	}
	c.opened.Store(opened)
	return nil
}

// Close ends the goroutines of the control plane and waits for them. Requests must
// have ended before. The backend stays open.
func (c *ControlPlane) Close() {
	c.end()
	_ = c.opening.Acquire(context.Background(), 1) // an Open under way ends with lifetime
	defer c.opening.Release(1)
	if opened := c.opened.Load(); opened != nil {
		opened.wait()
	}
	c.closed.Store(true)
}

// Closed reports whether Close has ended all goroutines. A new control plane may then be made with
// the same prefix.
func (c *ControlPlane) Closed() bool { return c.closed.Load() }

// ServeHTTP serves a request through the filters. It opens the control plane first,
// and responds with 503 if that fails.
func (c *ControlPlane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	opened := c.opened.Load()
	if opened == nil {
		if opened = c.openFor(w, r); opened == nil {
			return
		}
	}
	if c.env.World != nil {
		r = r.WithContext(simulation.With(r.Context(), c.env.World))
	}
	opened.handler.ServeHTTP(w, r)
}

// openFor opens the control plane for a request. If that fails, it writes the error response and
// returns nil.
func (c *ControlPlane) openFor(w http.ResponseWriter, r *http.Request) *instance {
	if err := c.Open(r.Context()); err != nil {
		c.env.Logger.Error("a control plane cannot be opened", "prefix", c.prefix, "err", err)
		endpoints.WriteStatus(w, r, endpoints.StatusOf(apierrors.NewServiceUnavailable("the control plane cannot be opened now")))
		return nil
	}
	return c.opened.Load()
}

// Withdraw removes this process from the endpoints of default/kubernetes before it stops. It has no
// effect if the control plane is not open.
func (c *ControlPlane) Withdraw(ctx context.Context) error {
	if opened := c.opened.Load(); opened != nil {
		return opened.cluster.Withdraw(ctx)
	}
	return nil
}

// Defines reports whether a definition of an open control plane defines a resource.
func (c *ControlPlane) Defines(resource schema.GroupResource) bool {
	opened := c.opened.Load()
	return opened != nil && opened.custom.Defines(resource)
}

// IdentityChanged publishes the cluster authentication configuration after
// Env.Identity has changed.
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
