// Package election elects the server that runs the controllers, among all servers that share a store. It uses a
// Lease, like the replicas of kube-controller-manager. It also observes the lease of a kube-controller-manager.
package election

import (
	"context"
	"errors"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// The timing of the lease. A server considers the lease of another holder expired if it has observed no change
// to the lease for the lease's duration. It ignores the times in the lease, because the clocks of servers may
// differ.
const (
	leaseDuration = 6 * time.Second
	renewPeriod   = 1500 * time.Millisecond
	// renewDeadline is how long the holder continues without a renewal before it stops. It is shorter than
	// leaseDuration, so that the holder stops before another server starts.
	renewDeadline = 4 * time.Second
	// releaseTimeout is the timeout of the write that releases the lease.
	releaseTimeout = 2 * time.Second
)

// leaseName is the name of the lease in kube-system.
const leaseName = "mainstay-controllers"

// Config configures an Election. All fields are required.
type Config struct {
	// Access writes the lease.
	Access *loopback.Access
	// Storage reads leases without a watch cache.
	Storage storage.Interface
	// Identity is the unique name of this server.
	Identity string
	Logger   *slog.Logger
}

// Election is the participation of one server in the election. It is not safe for concurrent use.
type Election struct {
	config Config
	leases *loopback.Client[*coordinationv1.Lease]
	// observed is the last observed state of the lease. observedAt is the local time at which this state was
	// first observed.
	observed   coordinationv1.LeaseSpec
	observedAt time.Time
	// resourceVersion is the resourceVersion of the lease when it was last read.
	resourceVersion string
}

// New creates an election without starting it.
func New(config Config) *Election {
	return &Election{
		config: config,
		leases: loopback.For[*coordinationv1.Lease](config.Access, coordinationv1.SchemeGroupVersion.WithResource("leases")),
	}
}

// Run calls lead each time this server acquires the lease. The context that is passed to lead ends when the
// lease is lost; Run then waits for lead to return. Run blocks until ctx ends, and then releases the lease.
func (e *Election) Run(ctx context.Context, lead func(context.Context)) {
	defer e.release(ctx)
	for ctx.Err() == nil {
		began := time.Now()
		err := e.acquire(ctx)
		switch {
		case err == nil:
			e.config.Logger.Info("acquired the lease of the controllers")
			e.leadWhileRenewed(ctx, began, lead)
		case errors.Is(err, errHeld):
			e.awaitChange(ctx)
		default:
			e.config.Logger.Debug("acquire the lease of the controllers", "err", err)
			sleep(ctx, renewPeriod)
		}
	}
}

// awaitChange returns when another server's lease expires or changes, for example because it is released.
func (e *Election) awaitChange(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, e.observedAt.Add(durationOf(&e.observed)))
	defer cancel()
	w, err := e.config.Storage.Watch(ctx, leaseKey().Namespace, rest.ListOptions{
		Fields: fields.OneTermEqualSelector("metadata.name", leaseName), ResourceVersion: e.resourceVersion,
	})
	if err == nil {
		defer w.Close()
		_, err = w.Next(ctx)
	}
	if err != nil {
		<-ctx.Done()
	}
}

// leadWhileRenewed runs lead and renews the lease, until renewals have failed for renewDeadline or another
// server holds the lease. At that time, it ends the context of lead even if a renewal has not returned yet.
// acquired is the time at which the lease was acquired, or an earlier time.
func (e *Election) leadWhileRenewed(ctx context.Context, acquired time.Time, lead func(context.Context)) {
	term, end := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); lead(term) }()
	defer func() { end(); <-done }()
	expiry := time.AfterFunc(time.Until(acquired.Add(renewDeadline)), end)
	defer expiry.Stop()
	for {
		sleep(term, renewPeriod)
		began := time.Now()
		err := e.acquire(term)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errHeld):
			e.config.Logger.Warn("lost the lease of the controllers to another server")
			return
		case term.Err() != nil:
			e.config.Logger.Warn("renewal of the controllers' lease timed out; the controllers stop until it is acquired again")
			return
		case err == nil:
			expiry.Reset(time.Until(began.Add(renewDeadline)))
		}
	}
}

// errHeld is returned if another server holds the lease.
var errHeld = errors.New("another server has the lease")

// acquire acquires or renews the lease, and creates it if it does not exist. It returns errHeld if another
// server holds the lease.
func (e *Election) acquire(ctx context.Context) error {
	_, err := e.leases.Update(ctx, leaseKey(), e.claim)
	if !apierrors.IsNotFound(err) {
		return err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseKey().Namespace, Name: leaseName}}
	if err := e.claim(lease); err != nil {
		return err
	}
	_, err = e.leases.Create(ctx, lease)
	if apierrors.IsAlreadyExists(err) {
		return errHeld
	}
	return err
}

// claim makes this server the holder of lease. It returns errHeld if another server holds the lease and the
// lease has not expired.
func (e *Election) claim(lease *coordinationv1.Lease) error {
	e.resourceVersion = lease.ResourceVersion
	spec := &lease.Spec
	if !isUnchanged(&e.observed, spec) || e.observedAt.IsZero() {
		e.observed, e.observedAt = *spec.DeepCopy(), time.Now()
	}
	own := spec.HolderIdentity != nil && *spec.HolderIdentity == e.config.Identity
	if !own && spec.HolderIdentity != nil && *spec.HolderIdentity != "" && time.Since(e.observedAt) < durationOf(&e.observed) {
		return errHeld
	}
	now := metav1.NowMicro()
	if !own {
		transitions := int32(0)
		if spec.LeaseTransitions != nil {
			transitions = *spec.LeaseTransitions
		}
		if spec.HolderIdentity != nil {
			transitions++
		}
		spec.AcquireTime, spec.LeaseTransitions = &now, &transitions
	}
	spec.HolderIdentity, spec.RenewTime, spec.LeaseDurationSeconds = &e.config.Identity, &now, new(int32(leaseDuration/time.Second))
	return nil
}

// isUnchanged reports whether the holder and the renewal time are the same in both specs.
func isUnchanged(a, b *coordinationv1.LeaseSpec) bool {
	same := func(x, y *metav1.MicroTime) bool { return x == nil && y == nil || x != nil && x.Equal(y) }
	holder := func(s *coordinationv1.LeaseSpec) string {
		if s.HolderIdentity == nil {
			return ""
		}
		return *s.HolderIdentity
	}
	return holder(a) == holder(b) && same(a.RenewTime, b.RenewTime)
}

// durationOf returns the duration of a lease, or leaseDuration if the duration is not set.
func durationOf(spec *coordinationv1.LeaseSpec) time.Duration {
	if spec.LeaseDurationSeconds == nil {
		return leaseDuration
	}
	return time.Duration(*spec.LeaseDurationSeconds) * time.Second
}

// release gives up the lease, so that another server can acquire it before it expires.
func (e *Election) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_, err := e.leases.Update(ctx, leaseKey(), func(lease *coordinationv1.Lease) error {
		if holder := lease.Spec.HolderIdentity; holder == nil || *holder != e.config.Identity {
			return errHeld
		}
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(""), new(int32(1))
		lease.Spec.RenewTime, lease.Spec.AcquireTime = &now, &now
		return nil
	})
	if err != nil && !errors.Is(err, errHeld) && !apierrors.IsNotFound(err) {
		e.config.Logger.Debug("release the lease of the controllers", "err", err)
	}
}

func leaseKey() types.NamespacedName {
	return types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: leaseName}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
