package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage"
)

// Config configures a Bootstrap. All fields but Endpoint, Leases, Identity, PeerLeases,
// ReportVersions and Revision are required.
type Config struct {
	// Access is the server's own, to the control plane.
	Access *loopback.Access
	// Stored returns the storage of a resource without a cache.
	Stored func(resource schema.GroupResource) (storage.Interface, error)
	// ServiceRanges are one or two ranges of cluster IPs; the first address of
	// the first is the service's of the API.
	ServiceRanges []netip.Prefix
	// Port is the port of the API.
	Port int
	// Endpoint is the address under which clients reach this server. The zero value publishes no
	// address.
	Endpoint netip.Addr
	// Leases hold the addresses of the servers that share a store; nil: no other
	// server does.
	Leases storage.Interface
	// Identity describes this server in its identity lease; nil disables the lease.
	Identity *Identity
	// PeerLeases stores the addresses of servers with an Identity.PeerAddress; nil if no server has
	// one.
	PeerLeases storage.Interface
	// ReportVersions reports the storage version of each resource. It is called after the identity
	// lease exists, which requires Identity; nil disables it.
	ReportVersions func(ctx context.Context) error
	// Revision returns the newest revision of the store if no other server writes to it: nothing is
	// read again until the revision has changed. nil: other servers may write.
	Revision func(ctx context.Context) (int64, error)
	Logger   *slog.Logger
}

// Bootstrap reconciles the objects that every cluster has. It is safe for concurrent use.
type Bootstrap struct {
	config    Config
	hooks     []*Hook
	endpoints endpoints
	identity  *identity   // nil without an identity lease
	published atomic.Bool // by the last turn
	versions  *Hook       // nil: they are not reported
	// changed contains one token if versions must be reported before their interval; nil disables
	// this.
	changed chan struct{}
	// seen is the revision of the last run.
	seen atomic.Int64
}

// Hook is a part of the bootstrap, under the name of kube-apiserver's
// post-start hook that does the same.
type Hook struct {
	Name string
	// every is how often it is run again, in turns of Run: 1, minutely, or 0, not
	// once it is done.
	every int
	run   func(ctx context.Context) error
	// recorded: all that it makes is in Seed.
	recorded bool
	// after is the hook that must succeed before this one runs; nil if there is none.
	after *Hook
	done  atomic.Bool
	// failure is why it is not done, of the last attempt; nil before the first.
	failure atomic.Pointer[error]
}

// ErrNotFinished is returned by Check until a hook is done.
var ErrNotFinished = errors.New("not finished")

// Check returns nil after the hook has succeeded for the first time, and before that an
// ErrNotFinished with the last error.
func (h *Hook) Check(context.Context) error {
	if h.done.Load() {
		return nil
	}
	if failure := h.failure.Load(); failure != nil {
		return fmt.Errorf("%w: %w", ErrNotFinished, *failure)
	}
	return ErrNotFinished
}

const (
	// runInterval is the interval of Run; kube-apiserver's for default/kubernetes.
	runInterval = 10 * time.Second
	// retry is the interval of Run after a failure.
	retry = time.Second
	// everyMinute is a minute in turns.
	everyMinute = int(time.Minute / runInterval)
)

// New returns a Bootstrap. Start must be called before Run.
func New(config Config) *Bootstrap {
	b := &Bootstrap{config: config}
	b.endpoints.bootstrap = b
	if config.Identity != nil {
		b.identity = newIdentity(&b.config)
	}
	system := &Hook{Name: "start-system-namespaces-controller", recorded: true, every: everyMinute, run: func(ctx context.Context) error { return b.ensure(ctx, namespaces()) }}
	ranges := &Hook{Name: "start-kubernetes-service-cidr-controller", every: 1, run: b.ensureServiceCIDR, after: system}
	b.hooks = []*Hook{
		system,
		{Name: "start-legacy-token-tracking-controller", every: everyMinute, run: func(ctx context.Context) error { return b.ensure(ctx, tokenTracking(simulation.Now(ctx))) }, after: system},
		{Name: "rbac/bootstrap-roles", recorded: true, run: func(ctx context.Context) error { return b.ensure(ctx, rbacObjects()...) }, after: system},
		{Name: "scheduling/bootstrap-system-priority-classes", recorded: true, run: func(ctx context.Context) error { return b.ensure(ctx, priorityClasses()) }},
		{Name: "priority-and-fairness-config-producer", recorded: true, every: everyMinute, run: func(ctx context.Context) error { return b.ensure(ctx, flowControlObjects()...) }},
		{Name: "bootstrap-controller", every: 1, run: b.ensureService, after: ranges}, // of which it is allocated its address
		ranges,
	}
	if config.ReportVersions != nil {
		b.versions = &Hook{Name: StorageVersionsHook, every: everyMinute, run: b.reportVersions, after: system}
		b.hooks, b.changed = append(b.hooks, b.versions), make(chan struct{}, 1)
	}
	return b
}

// Hooks returns the hooks, in the order of kube-apiserver's. The caller must not change
// the slice.
func (b *Bootstrap) Hooks() []*Hook { return b.hooks }

// Seeded records that Seed was just stored, so the hooks of these objects have no work at startup.
// It must be called before StartNamespaces.
func (b *Bootstrap) Seeded() {
	for _, hook := range b.hooks {
		if hook.recorded {
			hook.done.Store(true)
		}
	}
}

// StartNamespaces creates the system's namespaces. It must be called before Start.
func (b *Bootstrap) StartNamespaces(ctx context.Context) error { return b.startHook(ctx, b.hooks[0]) }

// Start runs each other hook once and publishes this server's endpoint, concurrently but
// for hooks that are after others. Failures are logged, and retried by Run.
func (b *Bootstrap) Start(ctx context.Context) {
	var running sync.WaitGroup
	ran := map[*Hook]chan struct{}{}
	for _, hook := range b.hooks {
		ran[hook] = make(chan struct{})
	}
	close(ran[b.hooks[0]]) // by StartNamespaces
	for _, hook := range b.hooks[1:] {
		running.Go(func() {
			defer close(ran[hook])
			if hook.after != nil {
				<-ran[hook.after]
			}
			_ = b.startHook(ctx, hook)
		})
	}
	running.Go(func() { b.publish(ctx) })
	running.Wait()
	b.seen.Store(b.revision(ctx))
}

// Run runs the hooks that are due until ctx ends.
func (b *Bootstrap) Run(ctx context.Context) {
	for n := 1; ; n++ {
		b.keepIdentity(ctx)
		wait := runInterval
		if !b.published.Load() || !b.finished() {
			wait = retry
		}
		if !b.sleep(ctx, wait) {
			return
		}
		revision := b.revision(ctx)
		if wait == runInterval && revision != 0 && revision == b.seen.Load() {
			continue // an idle server stays so
		}
		all := n%everyMinute == 0
		for _, hook := range b.hooks {
			if !hook.done.Load() || hook.every == 1 || all && hook.every > 0 {
				_ = b.runHook(ctx, hook)
			}
		}
		b.publish(ctx)
		if all {
			b.seen.Store(revision)
		}
	}
}

// sleep waits for the next round, and reports changed storage versions until then. It returns false
// if ctx has ended.
func (b *Bootstrap) sleep(ctx context.Context, wait time.Duration) bool {
	turn := time.After(wait)
	for {
		select {
		case <-turn:
			return true
		case <-b.changed:
			_ = b.runHook(ctx, b.versions)
		case <-ctx.Done():
			return false
		}
	}
}

// revision returns the newest revision of the store, 0 if unknown.
func (b *Bootstrap) revision(ctx context.Context) int64 {
	if b.config.Revision == nil {
		return 0
	}
	revision, err := b.config.Revision(ctx)
	if err != nil {
		return 0
	}
	return revision
}

func (b *Bootstrap) finished() bool {
	for _, hook := range b.hooks {
		if !hook.done.Load() {
			return false
		}
	}
	return true
}

// startHook runs a hook that is not done yet.
func (b *Bootstrap) startHook(ctx context.Context, hook *Hook) error {
	if hook.done.Load() {
		return nil
	}
	return b.runHook(ctx, hook)
}

// runHook runs a hook, and logs and stores its error, or the error of an unfinished predecessor.
func (b *Bootstrap) runHook(ctx context.Context, hook *Hook) error {
	if before := hook.after; before != nil && !before.done.Load() {
		hook.failure.Store(before.failure.Load())
		return hook.Check(ctx)
	}
	err := hook.run(ctx)
	switch {
	case err == nil:
		hook.done.Store(true)
	case ctx.Err() == nil:
		hook.failure.Store(&err)
		b.config.Logger.Error("the default objects of the cluster cannot be created yet", "hook", hook.Name, "err", err)
	}
	return err
}

func (b *Bootstrap) publish(ctx context.Context) {
	err := b.endpoints.publish(ctx)
	b.published.Store(err == nil)
	if err != nil && ctx.Err() == nil {
		b.config.Logger.Error("publish the endpoint of this server", "err", err)
	}
}

func (b *Bootstrap) keepIdentity(ctx context.Context) {
	if b.identity == nil {
		return
	}
	if err := b.identity.keep(ctx); err != nil && ctx.Err() == nil {
		b.config.Logger.Error("keep the identity leases", "err", err)
	}
}

// Withdraw removes this server's endpoint and identity lease before it stops. The last endpoint of
// a cluster remains, so that the service keeps its address during a restart.
func (b *Bootstrap) Withdraw(ctx context.Context) error {
	var errs []error
	if err := b.endpoints.withdraw(ctx); err != nil {
		errs = append(errs, fmt.Errorf("withdraw the endpoint of this server: %w", err))
	}
	if b.identity != nil {
		errs = append(errs, b.identity.withdraw(ctx))
	}
	return errors.Join(errs...)
}
