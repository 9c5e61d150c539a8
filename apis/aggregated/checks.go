package aggregated

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/storage/reflector"
)

const (
	// checkers is how many servers are looked at at the same time.
	checkers = 8
	// firstRetry is how long a failed check is waited with, doubled with each
	// failure up to maxRetry.
	firstRetry = 100 * time.Millisecond
	maxRetry   = 10 * time.Second
	// suspectPeriod is how often at most a server is looked at because it did
	// not answer requests.
	suspectPeriod = time.Second
)

// checks decides when which server is looked at. Its fields belong to the
// goroutine of run.
type checks struct {
	*Source
	known map[schema.GroupVersion]*check
	// done takes what was looked at; changed the services that are not what
	// they were, a nameless one for any.
	done     chan finished
	changed  chan corev1.ObjectReference
	workers  errgroup.Group
	atWork   int
	stop     context.CancelFunc // of following services; nil: nobody does
	watchers sync.WaitGroup
}

// check is what is known of one registration.
type check struct {
	registration *registration
	due, begun   time.Time // of the next look, and of the last
	failures     int
	running      bool
	// again: something changed while it was looked at.
	again bool
	// passed is when discovery was last asked for, with success.
	passed time.Time
}

// finished is the outcome of one look.
type finished struct {
	gv     schema.GroupVersion
	passed bool
}

func newChecks(s *Source) *checks {
	return &checks{
		Source: s, known: map[schema.GroupVersion]*check{}, done: make(chan finished), changed: make(chan corev1.ObjectReference),
	}
}

// run looks at servers until ctx ends.
func (c *checks) run(ctx context.Context) {
	defer func() {
		if c.stop != nil {
			c.stop()
		}
		_ = c.workers.Wait() // they return no errors
		c.watchers.Wait()
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.woken:
			c.adopt(ctx)
		case service := <-c.changed:
			c.noteChange(service)
		case f := <-c.done:
			c.finish(f)
		case <-timer.C:
		}
		timer.Reset(c.start(ctx))
	}
}

// adopt takes over the registrations of now.
func (c *checks) adopt(ctx context.Context) {
	remotes := c.current.Load().remotes
	for gv, known := range c.known {
		if remotes[gv] == nil {
			c.metrics.forget(known.registration.name)
			delete(c.known, gv)
		}
	}
	for gv, r := range remotes {
		known := c.known[gv]
		switch {
		case known == nil:
			c.known[gv] = &check{registration: r, due: time.Now()}
		case known.registration.server != r.server || known.registration.uid != r.uid:
			c.known[gv] = &check{registration: r, due: time.Now(), running: known.running, again: known.running}
		default:
			if known.registration.available != r.available { // somebody wrote it
				known.due = time.Now()
			}
			if r.server.suspected.Load() && known.failures == 0 {
				known.due = earlier(known.due, known.begun.Add(suspectPeriod))
			}
			known.registration = r
		}
	}
	switch {
	case len(remotes) > 0 && c.stop == nil:
		var following context.Context
		following, c.stop = context.WithCancel(ctx)
		for resource, collection := range c.config.Behind {
			c.follow(following, resource, collection)
		}
	case len(remotes) == 0 && c.stop != nil:
		c.stop()
		c.stop = nil
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// start begins what is due, as far as there are workers, and returns when to
// look again.
func (c *checks) start(ctx context.Context) time.Duration {
	now, next := time.Now(), time.Hour
	for gv, known := range c.known {
		if known.running {
			continue
		}
		if wait := known.due.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		if c.atWork == checkers {
			continue // begun when one is done
		}
		c.atWork++
		known.running, known.again, known.begun = true, false, now
		r := known.registration
		fresh := known.failures > 0 || now.Sub(known.passed) >= refreshPeriod
		if fresh {
			known.passed = now
		}
		c.workers.Go(func() error {
			passed := c.look(ctx, r, fresh)
			select {
			case c.done <- finished{gv, passed}:
			case <-ctx.Done():
			}
			return nil
		})
	}
	return next
}

// look finds out whether the server of a registration can be reached, and what
// it has, and tells everyone.
func (c *checks) look(ctx context.Context, r *registration, fresh bool) (passed bool) {
	r.server.suspected.Store(false)
	v := c.judge(ctx, r)
	if ctx.Err() != nil {
		return false
	}
	if v.passed() {
		passed = c.hear(ctx, r, fresh)
	} else {
		c.heard(r, stale(r.resources))
	}
	// Last, so that whoever sees that it is available finds what it has.
	if err := c.report(ctx, r, v); err != nil && ctx.Err() == nil {
		c.logger.Warn("the availability of an APIService cannot be told", "name", r.name, "err", err)
		return false
	}
	return passed
}

// hear finds out what a server has.
func (c *checks) hear(ctx context.Context, r *registration, fresh bool) bool {
	resources, err := r.server.discover(ctx, r.gv, fresh)
	if err != nil {
		c.logger.Debug("an aggregated server does not tell what it has", "name", r.name, "err", err)
		c.heard(r, stale(r.resources))
		return false
	}
	c.heard(r, resources)
	if c.config.Documents != nil {
		r.server.describe(ctx, r, fresh)
	}
	return true
}

func (c *checks) finish(f finished) {
	c.atWork--
	known := c.known[f.gv]
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
	if known.again {
		known.due = time.Now()
	}
}

// noteChange lets registrations be looked at whose service is not what it was.
func (c *checks) noteChange(service corev1.ObjectReference) {
	for _, known := range c.known {
		at := known.registration.server.address.service
		if service.Name != "" && (at.Namespace != service.Namespace || at.Name != service.Name) {
			continue
		}
		known.due, known.failures, known.again = time.Now(), 0, known.running
	}
}

// follow tells of changes of services, or of what is behind them, until ctx ends.
func (c *checks) follow(ctx context.Context, resource schema.GroupResource, collection reflector.Collection) {
	tell := func(ctx context.Context, service corev1.ObjectReference) error {
		select {
		case c.changed <- service:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	follower, err := reflector.New(reflector.Config{
		Name: resource.String() + " of APIServices", Collection: collection, Logger: c.logger, Metrics: c.config.Following,
		Replace: func(ctx context.Context, _ *rest.List) error { return tell(ctx, corev1.ObjectReference{}) },
		Apply: func(ctx context.Context, events []rest.Event) error {
			for i := range events {
				namespace, name, ok := serviceNameOf(&events[i], resource.Group == discoveryv1.GroupName)
				if !ok {
					continue
				}
				if err := tell(ctx, corev1.ObjectReference{Namespace: namespace, Name: name}); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err != nil {
		c.logger.Error("changes behind APIServices are noticed late", "err", err)
		return
	}
	c.watchers.Go(func() { follower.Run(ctx) })
}
