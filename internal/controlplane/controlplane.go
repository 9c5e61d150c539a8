// Package controlplane implements a Kubernetes API as an http.Handler, including its resources, definitions,
// registrations, authorization and filters. A control plane stores its objects below a prefix of a kv.Backend.
// The host (package host) owns the resources of the process, such as the listener, data directory, store, keys
// and metrics, and passes them as an Env.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

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

	// lifetime is canceled by Close, which ends all goroutines of the control plane.
	lifetime context.Context
	cancel   context.CancelFunc
	// opening is a lock that is held during Open and Close. It is a semaphore, so that waiting for it can be
	// canceled.
	opening *semaphore.Weighted
	opened  atomic.Pointer[instance]
	closed  atomic.Bool // Close has returned
}

// ErrClosed is returned by Open after Close.
var ErrClosed = errors.New("the control plane is closed")

// New returns a control plane whose objects are stored below prefix, such as "/registry", or the errors of its
// arguments. The prefix must not contain, or be contained in, the prefix of another control plane in the same
// backend. New performs no I/O and starts no goroutine. The caller must call Close.
func New(env *Env, prefix string, options Options) (*ControlPlane, error) {
	options = options.WithDefaults()
	if err := errors.Join(env.check(), options.Check()); err != nil {
		return nil, err
	}
	c := &ControlPlane{env: env, prefix: prefix, options: options, opening: semaphore.NewWeighted(1)}
	c.lifetime, c.cancel = context.WithCancel(simulation.With(context.Background(), env.Simulation))
	return c, nil
}

// Open makes the control plane ready to serve. It loads the objects that configure the server, and creates the
// default objects of the cluster. It blocks until the control plane is open, and returns nil immediately if it
// is already open. If Open returns an error, including the error of ctx, all goroutines that it started have
// ended, and Open can be called again. After Close, Open returns ErrClosed.
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
	opened, err := newInstance(newSettings(c))
	if err != nil {
		return fmt.Errorf("open the control plane at %s: %w", c.prefix, err)
	}
	if err := opened.start(simulation.With(ctx, c.env.Simulation), c.lifetime); err != nil {
		return fmt.Errorf("open the control plane at %s: %w", c.prefix, err)
	}
	c.opened.Store(opened)
	return nil
}

// Close ends the goroutines of the control plane and waits for them. All requests must have ended before Close
// is called. Close does not close the backend.
func (c *ControlPlane) Close() {
	c.cancel()
	_ = c.opening.Acquire(context.Background(), 1) // a concurrent Open returns when lifetime ends
	defer c.opening.Release(1)
	if opened := c.opened.Load(); opened != nil {
		opened.wait()
	}
	c.closed.Store(true)
}

// Closed reports whether Close has returned. A new control plane can then be created with the same
// prefix.
func (c *ControlPlane) Closed() bool { return c.closed.Load() }

// ServeHTTP serves a request through the filters. If the control plane is not open, ServeHTTP opens it first,
// and responds with 503 if that fails.
func (c *ControlPlane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	opened := c.opened.Load()
	if opened == nil {
		if opened = c.openFor(w, r); opened == nil {
			return
		}
	}
	r = cutMoment(r)
	if c.env.Simulation != nil {
		r = r.WithContext(simulation.With(r.Context(), c.env.Simulation))
	}
	opened.handler.ServeHTTP(w, r)
}

// openFor opens the control plane for a request. If that fails, it writes the error response and
// returns nil.
func (c *ControlPlane) openFor(w http.ResponseWriter, r *http.Request) *instance {
	if err := c.Open(r.Context()); err != nil {
		c.env.Telemetry.Logger.Error("a control plane cannot be opened", "prefix", c.prefix, "err", err)
		endpoints.WriteStatus(w, r, endpoints.StatusOf(apierrors.NewServiceUnavailable("the control plane cannot be opened now")))
		return nil
	}
	return c.opened.Load()
}

// Withdraw removes this process from the endpoints of the service default/kubernetes. It should be called
// before the process stops. It has no effect if the control plane is not open. It returns the joined errors of
// the writes.
func (c *ControlPlane) Withdraw(ctx context.Context) error {
	if opened := c.opened.Load(); opened != nil {
		return opened.defaultObjects.bootstrap.Withdraw(ctx)
	}
	return nil
}

// PendingWork returns the state of the controllers. busy reports whether a controller is busy; if so, the
// control plane should not be closed. due is the earliest time at which a controller has work even if no object
// changes, such as the deletion of a finished Job, or zero if there is no such time. known is false if the
// control plane is not open, or if another server runs its controllers.
func (c *ControlPlane) PendingWork() (busy bool, due time.Time, known bool) {
	opened := c.opened.Load()
	if opened == nil {
		return false, time.Time{}, false
	}
	return opened.controllers.pendingWork()
}

// IsIdle reports whether no controller in this server is busy, and no controller will be busy because of the
// changes so far. The result is true if no controller was busy at the last call, and if, since then, the
// controllers have received all changes up to the last call and have processed nothing. Therefore, the first
// call usually returns false, and a later call can return true after RequestProgress has been called on the
// store. The result is true if the control plane is not open or if another server runs its controllers. IsIdle
// may block on the store. It must not be called concurrently.
func (c *ControlPlane) IsIdle(ctx context.Context) bool {
	opened := c.opened.Load()
	return opened == nil || opened.controllers.isIdle(ctx)
}

// Defines reports whether the control plane is open and a CustomResourceDefinition defines a resource.
// It does not open the control plane.
func (c *ControlPlane) Defines(resource schema.GroupResource) bool {
	opened := c.opened.Load()
	return opened != nil && opened.resources.definitions.Defines(resource)
}

// IdentityChanged publishes the result of Env.Identity.ClusterAuthentication after it has changed.
// Publication happens in the background. It has no effect if the control plane is not open. It
// returns the error of Env.Identity.ClusterAuthentication.
func (c *ControlPlane) IdentityChanged() error {
	opened := c.opened.Load()
	if opened == nil {
		return nil
	}
	data, err := c.env.Identity.ClusterAuthentication()
	if err != nil {
		return err
	}
	opened.clusterAuth.set(data)
	return nil
}
