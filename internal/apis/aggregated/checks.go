package aggregated

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

const (
	// maxConcurrentChecks is the maximum number of concurrent checks.
	maxConcurrentChecks = 8
	// firstRetry is the delay after the first failed check. It doubles with each consecutive failure, up to
	// maxRetry.
	firstRetry = 100 * time.Millisecond
	maxRetry   = 10 * time.Second
	// recheckPeriod is the minimum time between checks that failed requests, or writes of the Available condition
	// by other servers, trigger.
	recheckPeriod = time.Second
)

// checks schedules the availability checks. Only the goroutine that executes run uses its fields, except the
// channels and the Source.
type checks struct {
	*Source
	byGroupVersion map[schema.GroupVersion]*check
	// results receives the results of checks. changedServices receives Services with changed
	// endpoints; an empty name means all Services.
	results         chan result
	changedServices chan corev1.ObjectReference
	workers         errgroup.Group
	inFlight        int
	// stopFollowing stops the reflectors of Config.Endpoints. It is nil if they are not running.
	stopFollowing context.CancelFunc
	reflectors    sync.WaitGroup
}

// check is the state of the checks of one registration.
type check struct {
	registration *registration
	due, started time.Time // the start times of the next check and of the last one
	failures     int
	running      bool
	// recheck is set if a change during the running check requires another check right after it.
	recheck bool
	// discovered is the time of the last check that bypassed the discovery cache.
	discovered time.Time
}

// result is the result of one check.
type result struct {
	gv     schema.GroupVersion
	passed bool
}

func newChecks(s *Source) *checks {
	return &checks{
		Source: s, byGroupVersion: map[schema.GroupVersion]*check{}, results: make(chan result), changedServices: make(chan corev1.ObjectReference),
	}
}

// run runs checks until ctx ends.
func (c *checks) run(ctx context.Context) {
	defer func() {
		if c.stopFollowing != nil {
			c.stopFollowing()
		}
		_ = c.workers.Wait() // they return no errors
		c.reflectors.Wait()
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wakeChecks:
			c.syncRegistrations(ctx)
		case service := <-c.changedServices:
			c.requeue(service)
		case f := <-c.results:
			c.finish(f)
		case <-timer.C:
		}
		timer.Reset(c.startDue(ctx))
	}
}

// syncRegistrations adds and removes checks so that there is one for each current
// registration.
func (c *checks) syncRegistrations(ctx context.Context) {
	remotes := c.current.Load().remotes
	for gv, known := range c.byGroupVersion {
		if remotes[gv] == nil {
			c.metrics.forget(known.registration.name)
			delete(c.byGroupVersion, gv)
		}
	}
	for gv, r := range remotes {
		known := c.byGroupVersion[gv]
		switch {
		case known == nil:
			c.byGroupVersion[gv] = &check{registration: r, due: time.Now()}
		case known.registration.server != r.server || known.registration.uid != r.uid:
			c.byGroupVersion[gv] = &check{registration: r, due: time.Now(), running: known.running, recheck: known.running}
		default:
			// Another server or a client may have changed the condition. Two servers that do not agree must not
			// write it without a pause.
			changed := known.registration.available != r.available
			if changed || r.server.suspected.Load() && known.failures == 0 {
				known.due = earlier(known.due, known.started.Add(recheckPeriod))
			}
			known.registration = r
		}
	}
	switch {
	case len(remotes) > 0 && c.stopFollowing == nil:
		var following context.Context
		following, c.stopFollowing = context.WithCancel(ctx)
		for resource, collection := range c.config.Endpoints() {
			c.follow(following, resource, collection)
		}
	case len(remotes) == 0 && c.stopFollowing != nil:
		c.stopFollowing()
		c.stopFollowing = nil
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// startDue starts the checks that are due, up to maxConcurrentChecks. It returns the time until the
// next check is due.
func (c *checks) startDue(ctx context.Context) time.Duration {
	now, next := time.Now(), time.Hour
	for gv, known := range c.byGroupVersion {
		if known.running {
			continue
		}
		if wait := known.due.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		if c.inFlight == maxConcurrentChecks {
			continue // it starts after a running check has finished
		}
		c.inFlight++
		known.running, known.recheck, known.started = true, false, now
		r := known.registration
		fresh := known.failures > 0 || now.Sub(known.discovered) >= refreshPeriod
		if fresh {
			known.discovered = now
		}
		c.workers.Go(func() error {
			passed := c.check(ctx, r, fresh)
			select {
			case c.results <- result{gv, passed}:
			case <-ctx.Done():
			}
			return nil
		})
	}
	return next
}

// check checks the availability of a registration, fetches its discovery, and writes its status. It reports
// whether all of these steps succeeded. If fresh is set, it bypasses the discovery cache.
func (c *checks) check(ctx context.Context, r *registration, fresh bool) (passed bool) {
	r.server.suspected.Store(false)
	v := c.checkAvailability(ctx, r)
	if ctx.Err() != nil {
		return false
	}
	if v.passed() {
		passed = c.discover(ctx, r, fresh)
	} else {
		c.setResources(r, stale(r.resources))
	}
	// The status is written last, so that discovery already has the resources of an APIService when it becomes
	// available.
	if err := c.updateStatus(ctx, r, v); err != nil && ctx.Err() == nil {
		c.logger.Warn("status write of an APIService failed", "name", r.name, "err", err)
		return false
	}
	return passed
}

// discover updates the discovery and OpenAPI documents of a registration. It returns false if discovery could
// not be fetched.
func (c *checks) discover(ctx context.Context, r *registration, fresh bool) bool {
	resources, err := r.server.discover(ctx, r.gv, fresh)
	if err != nil {
		c.logger.Debug("discovery of an aggregated server failed", "name", r.name, "err", err)
		c.setResources(r, stale(r.resources))
		return false
	}
	c.setResources(r, resources)
	if c.config.Documents != nil {
		r.server.updateOpenAPI(ctx, r, fresh)
	}
	return true
}

// finish applies the result of a check.
func (c *checks) finish(f result) {
	c.inFlight--
	known := c.byGroupVersion[f.gv]
	if known == nil {
		return
	}
	known.running = false
	wait := c.config.Resync
	if f.passed {
		known.failures = 0
	} else {
		wait = min(firstRetry<<min(known.failures, 10), maxRetry, c.config.Resync)
		known.failures++
	}
	known.due = time.Now().Add(wait)
	if known.recheck {
		known.due = time.Now()
	}
}

// requeue makes the checks of a changed Service due immediately. If the name of the Service is empty, all
// checks become due.
func (c *checks) requeue(service corev1.ObjectReference) {
	for _, known := range c.byGroupVersion {
		at := known.registration.server.address.service
		if service.Name != "" && (at.Namespace != service.Namespace || at.Name != service.Name) {
			continue
		}
		known.due, known.failures, known.recheck = time.Now(), 0, known.running
	}
}

// follow starts a reflector that sends the Services of changed objects to changedServices, until ctx ends.
func (c *checks) follow(ctx context.Context, resource schema.GroupResource, collection reflector.Collection) {
	notify := func(ctx context.Context, service corev1.ObjectReference) error {
		select {
		case c.changedServices <- service:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	follower, err := reflector.New(reflector.Config{
		Name: resource.String() + " of APIServices", Collection: collection, Logger: c.logger, Metrics: c.config.Reflectors,
		Replace: func(ctx context.Context, _ *rest.List) error { return notify(ctx, corev1.ObjectReference{}) },
		Apply: func(ctx context.Context, events []rest.Event) error {
			for i := range events {
				namespace, name, ok := serviceNameOf(&events[i], resource.Group == discoveryv1.GroupName)
				if !ok {
					continue
				}
				if err := notify(ctx, corev1.ObjectReference{Namespace: namespace, Name: name}); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err != nil {
		c.logger.Error("changes of Services are only detected by periodic checks", "err", err)
		return
	}
	c.reflectors.Go(func() { follower.Run(ctx) })
}
