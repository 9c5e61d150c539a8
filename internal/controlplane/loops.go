package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mainstay.dev/mainstay/internal/storage/reflector"
)

// Names of components in errors, logs and health checks.
const (
	authorizationObjects    = "authorization objects"
	flowControlObjects      = "flow schemas and priority levels"
	quotaObjects            = "resource quotas"
	definitionObjects       = "CustomResourceDefinitions"
	registrationObjects     = "APIServices"
	admissionFiles          = "admission manifests"
	configurationObjects    = "objects that configure the server"
	admissionWebhookObjects = "configurations of admission webhooks"
	admissionPolicyObjects  = "admission policies"
	auditEvents             = "audit events"
	peerServers             = "peer servers"
	controllerLoops         = "controllers"
	clusterObjects          = "default objects of the cluster"
	earlierStates           = "earlier states"
)

// component is a part of a control plane with state to load or a loop to run.
type component struct {
	// name describes the objects that the component processes, in the plural. It is used in errors and logs.
	name string
	// load reads the initial state; nil if there is no state to load. It is called before run, and again after
	// an error that reports an unavailable store.
	load func(context.Context) error
	// run keeps the state up to date until ctx ends; nil if there is no loop. While the control plane
	// serves, it must not return.
	run func(context.Context) error
}

// electionTime is the time for which a load is retried while the store is unavailable. It is longer than an
// election of etcd.
const electionTime = 10 * time.Second

// loadAvailable calls load if it is set, and retries it for about electionTime while the store is unavailable.
func (c *component) loadAvailable(ctx context.Context) error {
	if c.load == nil {
		return nil
	}
	began, backoff := time.Now(), reflector.Backoff(time.Second)
	for {
		err := c.load(ctx)
		if err == nil || !isUnavailable(err) || time.Since(began) > electionTime || reflector.Sleep(ctx, &backoff) != nil {
			return err
		}
	}
}

// loops runs the loops of components. It is safe for concurrent use.
type loops struct {
	logger *slog.Logger
	group  errgroup.Group

	mu    sync.Mutex
	ended []string // names of components whose loop has returned
}

// start runs the loops of components until ctx ends.
func (l *loops) start(ctx context.Context, components ...component) {
	for _, c := range components {
		if c.run == nil {
			continue
		}
		l.group.Go(func() error {
			err := c.run(ctx)
			l.end(c.name)
			if err != nil {
				l.logger.Error("a loop of a control plane has failed; its state is no longer updated", "loop", c.name, "err", err)
			}
			return nil
		})
	}
}

// run calls f in a goroutine that wait waits for. f must return soon after the lifetime of the
// control plane has ended.
func (l *loops) run(f func()) {
	l.group.Go(func() error { f(); return nil })
}

func (l *loops) end(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = append(l.ended, name)
}

// wait waits until all loops have returned.
func (l *loops) wait() { _ = l.group.Wait() }

var errLoopEnded = errors.New("it has ended")

// check returns an error if the loop of a named component has ended.
func (l *loops) check(names ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range l.ended {
		if slices.Contains(names, name) {
			return fmt.Errorf("the loop of %s: %w", name, errLoopEnded)
		}
	}
	return nil
}

// reflectors keep one component up to date with the writes of other servers.
type reflectors []*reflector.Reflector

// loading returns a component that loads the objects. The component that followAll returns follows their
// changes.
func (r reflectors) loading(name string) component {
	return component{name: name, load: r.load}
}

// followAll returns the component that follows the changes of several components in one goroutine.
func followAll(all ...reflectors) component {
	joined := slices.Concat(all...)
	return component{configurationObjects, nil, func(ctx context.Context) error {
		reflector.RunAll(ctx, joined)
		return nil
	}}
}

// load lists all objects.
func (r reflectors) load(ctx context.Context) error {
	var group errgroup.Group
	for _, one := range r {
		group.Go(func() error { return one.Load(ctx) })
	}
	return group.Wait()
}
