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

	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage"
)

// Config configures a Bootstrap. All fields except Endpoint, Leases, Identity, PeerLeases,
// ReportVersions and Revision are required.
type Config struct {
	// Access is used to write objects through the API of this control plane.
	Access *loopback.Access
	// Gates contains the feature gates. The default roles depend on them.
	Gates feature.Gates
	// Stored returns uncached storage for a resource.
	Stored func(resource schema.GroupResource) (storage.Interface, error)
	// ServiceRanges are one or two ranges of cluster IPs. The first address of the first range is
	// the cluster IP of the service default/kubernetes.
	ServiceRanges []netip.Prefix
	// Port is the port on which this server serves the API.
	Port int
	// NodePort is the node port of the service default/kubernetes. If it is 0, the type of the service is
	// ClusterIP.
	NodePort int
	// Endpoint is the address at which clients reach this server. The zero value publishes no address.
	Endpoint netip.Addr
	// Leases stores the addresses of the servers that share a store. It is nil if only this server uses the
	// store.
	Leases storage.Interface
	// Identity describes this server in its identity lease; nil disables the lease.
	Identity *Identity
	// PeerLeases stores the peer addresses of the servers (see Identity.PeerAddress). If it is nil, no peer
	// address is published.
	PeerLeases storage.Interface
	// ReportVersions reports the storage version of each resource. It is called once the identity lease exists,
	// so Identity must be set. If ReportVersions is nil, storage versions are not reported.
	ReportVersions func(ctx context.Context) error
	// Revision returns the newest revision of the store. If it is set, Run skips rounds in which the revision
	// has not changed. It must be nil if other servers can write to the store.
	Revision func(ctx context.Context) (int64, error)
	Logger   *slog.Logger
}

// Bootstrap reconciles the objects that every cluster has. It is safe for concurrent use.
type Bootstrap struct {
	config    Config
	hooks     []*Hook
	endpoints endpoints
	identity  *identity   // nil if Config.Identity is nil
	published atomic.Bool // whether the last attempt to publish the endpoint succeeded
	versions  *Hook       // nil if storage versions are not reported
	// changed contains one token if storage versions must be reported before the next round. It is nil if
	// storage versions are not reported.
	changed chan struct{}
	// seen is the revision of the store at the start of the last round in which all hooks ran. It is 0 if a
	// hook has failed since then.
	seen atomic.Int64
}

// Hook reconciles a part of the objects. It has the name of the post-start hook that does this in
// kube-apiserver. Check is safe for concurrent use.
type Hook struct {
	Name string
	// every is the interval of the hook, in rounds of Run. If it is 0, the hook does not run again
	// after it has succeeded.
	every int
	run   func(ctx context.Context) error
	// recorded is set if Seed contains all objects of the hook.
	recorded bool
	// after is the hook that must succeed before this one runs; nil if there is none.
	after *Hook
	done  atomic.Bool
	// failure is the error of the last attempt if the hook has not succeeded yet; nil before the
	// first attempt.
	failure atomic.Pointer[error]
}

// ErrNotFinished is returned by Hook.Check until the hook has succeeded.
var ErrNotFinished = errors.New("not finished")

// Check returns nil if the hook has succeeded once. Otherwise, it returns an error that wraps ErrNotFinished
// and, if an attempt failed, the error of the last attempt.
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
	// runInterval is the interval between rounds. kube-apiserver uses the same interval for
	// default/kubernetes.
	runInterval = 10 * time.Second
	// retry is the interval until the next round after a failure.
	retry = time.Second
	// everyMinute is the number of rounds per minute.
	everyMinute = int(time.Minute / runInterval)
)

// tokenTrackingHook is the name of the hook that stores the date since which the use of tokens in Secrets is
// tracked.
const tokenTrackingHook = "start-legacy-token-tracking-controller"

// New returns a Bootstrap. StartNamespaces and Start must be called before Run.
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
		{Name: tokenTrackingHook, every: everyMinute, run: func(ctx context.Context) error { return b.ensure(ctx, tokenTracking(simulation.Now(ctx))) }, after: system},
		{Name: "rbac/bootstrap-roles", recorded: true, run: func(ctx context.Context) error { return b.ensure(ctx, rbacObjects(config.Gates)...) }, after: system},
		{Name: "scheduling/bootstrap-system-priority-classes", recorded: true, run: func(ctx context.Context) error { return b.ensure(ctx, priorityClasses()) }},
		{Name: "priority-and-fairness-config-producer", recorded: true, every: everyMinute, run: func(ctx context.Context) error { return b.ensure(ctx, flowControlObjects()...) }},
		{Name: "bootstrap-controller", every: 1, run: b.ensureService, after: ranges}, // allocating the address of the service requires the ranges
		ranges,
	}
	if config.ReportVersions != nil {
		b.versions = &Hook{Name: StorageVersionsHook, every: everyMinute, run: b.reportVersions, after: system}
		b.hooks, b.changed = append(b.hooks, b.versions), make(chan struct{}, 1)
	}
	return b
}

// Hooks returns the hooks in the same order as kube-apiserver. The caller must not modify the slice.
func (b *Bootstrap) Hooks() []*Hook { return b.hooks }

// Seeded records that the objects of Seed were stored, so that the hooks for these objects need not run at
// startup. It must be called before StartNamespaces.
func (b *Bootstrap) Seeded() {
	for _, hook := range b.hooks {
		if hook.recorded {
			hook.done.Store(true)
		}
	}
}

// AllSeeded records that all objects exist, except for objects that depend on the server or on its start time.
// After this, StartNamespaces need not be called, and Start must be called only if ReportsVersions returns
// true. If Start is not called, Run calls it.
func (b *Bootstrap) AllSeeded() {
	for _, hook := range b.hooks {
		if hook.Name != tokenTrackingHook && hook != b.versions {
			hook.done.Store(true)
		}
	}
}

// ReportsVersions reports whether storage versions are reported. If so, writes are rejected until Start has
// reported them.
func (b *Bootstrap) ReportsVersions() bool { return b.versions != nil }

// StartNamespaces creates the system namespaces. It must be called before Start. If a write fails, it returns
// the error, and Run tries again.
func (b *Bootstrap) StartNamespaces(ctx context.Context) error { return b.startHook(ctx, b.hooks[0]) }

// Start runs all other hooks once and publishes the endpoint of this server. Hooks run
// concurrently, unless they depend on each other. Failures are logged, and Run retries them.
func (b *Bootstrap) Start(ctx context.Context) {
	var running sync.WaitGroup
	ran := map[*Hook]chan struct{}{}
	for _, hook := range b.hooks {
		ran[hook] = make(chan struct{})
	}
	close(ran[b.hooks[0]]) // StartNamespaces has run the first hook
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

// Run runs the hooks at their intervals until ctx is canceled. It first calls Start if a hook has not succeeded
// yet.
func (b *Bootstrap) Run(ctx context.Context) {
	if !b.finished() {
		b.Start(ctx)
	}
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
			continue // an idle server reads and writes nothing
		}
		all := n%everyMinute == 0
		if all {
			b.seen.Store(revision)
		}
		for _, hook := range b.hooks {
			if !hook.done.Load() || hook.every == 1 || all && hook.every > 0 {
				_ = b.runHook(ctx, hook)
			}
		}
		b.publish(ctx)
	}
}

// sleep waits for the next round. While it waits, it reports storage versions when VersionsChanged is called.
// It returns false if ctx is canceled.
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

// revision returns the newest revision of the store, or 0 if it is unknown.
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

// startHook runs a hook unless it has succeeded already.
func (b *Bootstrap) startHook(ctx context.Context, hook *Hook) error {
	if hook.done.Load() {
		return nil
	}
	return b.runHook(ctx, hook)
}

// runHook runs a hook. It logs and stores the error of the hook. If the preceding hook has not succeeded, it
// only stores the error of that hook.
func (b *Bootstrap) runHook(ctx context.Context, hook *Hook) error {
	if before := hook.after; before != nil && !before.done.Load() {
		hook.failure.Store(before.failure.Load())
		return hook.Check(ctx)
	}
	err := hook.run(ctx)
	if err != nil {
		b.seen.Store(0) // the next round must not be skipped, even if the store does not change
	}
	switch {
	case err == nil:
		hook.done.Store(true)
	case ctx.Err() == nil:
		hook.failure.Store(&err)
		b.config.Logger.Error("default objects of the cluster could not be created; retrying", "hook", hook.Name, "err", err)
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

// Withdraw removes the endpoint and the identity lease of this server before it stops. If no other server has a
// lease, the endpoint remains, so that the service has an endpoint during a restart. It returns the joined
// errors of the writes.
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
