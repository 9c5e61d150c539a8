// Package election elects one of several servers over a store, which runs the controllers, with a
// Lease, like the replicas of kube-controller-manager. It also observes the lease of a
// kube-controller-manager.
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

// Times of the lease. The clock of this process determines the expiration of another holder's
// lease: the time without a change, not the times in the lease.
const (
	duration    = 6 * time.Second
	renewPeriod = 1500 * time.Millisecond
	// deadline is the time without a renewal after which the holder stops. It is shorter than
	// duration, so that the holder stops before another one starts.
	deadline = 4 * time.Second
	// releaseTimeout bounds the write of a holder that stops.
	releaseTimeout = 2 * time.Second
)

// leaseName is the lease's, in kube-system.
const leaseName = "mainstay-controllers"

// Config configures an Election. All fields are required.
type Config struct {
	// Access is to the control plane.
	Access *loopback.Access
	// Stored are leases, past the watch cache.
	Stored storage.Interface
	// Identity names this server, uniquely.
	Identity string
	Logger   *slog.Logger
}

// Election is one server's part in it. It belongs to the goroutine of Run.
type Election struct {
	config Config
	leases *loopback.Client[*coordinationv1.Lease]
	// observed is the lease as it last was, since the time at which that was seen.
	observed coordinationv1.LeaseSpec
	since    time.Time
	// version is the lease's resourceVersion when it was read last.
	version string
}

// New returns an election that has not started.
func New(config Config) *Election {
	return &Election{
		config: config,
		leases: loopback.For[*coordinationv1.Lease](config.Access, coordinationv1.SchemeGroupVersion.WithResource("leases")),
	}
}

// Run calls lead whenever this server is the one that acts, with a context that ends
// when it is not any more, until ctx ends. It then hands the lease over.
func (e *Election) Run(ctx context.Context, lead func(context.Context)) {
	defer e.release(ctx)
	for ctx.Err() == nil {
		err := e.acquire(ctx)
		switch {
		case err == nil:
			e.config.Logger.Info("this server runs the controllers")
			e.hold(ctx, lead)
		case errors.Is(err, errHeld):
			e.await(ctx)
		default:
			e.config.Logger.Debug("the controllers' lease cannot be taken", "err", err)
			sleep(ctx, renewPeriod)
		}
	}
}

// await returns when the lease of another server changes, for example when it is released, or when
// it expires.
func (e *Election) await(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, e.since.Add(holdTime(&e.observed)))
	defer cancel()
	w, err := e.config.Stored.Watch(ctx, leaseKey().Namespace, rest.ListOptions{
		Fields: fields.OneTermEqualSelector("metadata.name", leaseName), ResourceVersion: e.version,
	})
	if err == nil {
		defer w.Close()
		_, err = w.Next(ctx)
	}
	if err != nil {
		<-ctx.Done()
	}
}

// hold runs lead while the lease is renewed.
func (e *Election) hold(ctx context.Context, lead func(context.Context)) {
	term, end := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); lead(term) }()
	defer func() { end(); <-done }()
	renewed := time.Now()
	for ctx.Err() == nil && time.Since(renewed) < deadline {
		sleep(ctx, renewPeriod)
		attempt, stop := context.WithDeadline(ctx, renewed.Add(deadline))
		began := time.Now()
		err := e.acquire(attempt)
		stop()
		switch {
		case err == nil:
			renewed = began
		case errors.Is(err, errHeld):
			e.config.Logger.Warn("another server has taken the controllers over")
			return
		}
	}
	if ctx.Err() == nil {
		e.config.Logger.Warn("the controllers' lease was not renewed in time, and they pause")
	}
}

// errHeld: another server has the lease.
var errHeld = errors.New("another server has the lease")

// acquire acquires or renews the lease.
func (e *Election) acquire(ctx context.Context) error {
	_, err := e.leases.Update(ctx, leaseKey(), e.take)
	if !apierrors.IsNotFound(err) {
		return err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseKey().Namespace, Name: leaseName}}
	if err := e.take(lease); err != nil {
		return err
	}
	_, err = e.leases.Create(ctx, lease)
	if apierrors.IsAlreadyExists(err) {
		return errHeld
	}
	return err
}

// take makes a lease this server's. The error is errHeld while it is another one's.
func (e *Election) take(lease *coordinationv1.Lease) error {
	e.version = lease.ResourceVersion
	spec := &lease.Spec
	if !sameHold(&e.observed, spec) || e.since.IsZero() {
		e.observed, e.since = *spec.DeepCopy(), time.Now()
	}
	own := spec.HolderIdentity != nil && *spec.HolderIdentity == e.config.Identity
	if !own && spec.HolderIdentity != nil && *spec.HolderIdentity != "" && time.Since(e.since) < holdTime(&e.observed) {
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
	spec.HolderIdentity, spec.RenewTime, spec.LeaseDurationSeconds = &e.config.Identity, &now, new(int32(duration/time.Second))
	return nil
}

// sameHold reports whether a lease was not renewed between two looks at it.
func sameHold(a, b *coordinationv1.LeaseSpec) bool {
	same := func(x, y *metav1.MicroTime) bool { return x == nil && y == nil || x != nil && x.Equal(y) }
	holder := func(s *coordinationv1.LeaseSpec) string {
		if s.HolderIdentity == nil {
			return ""
		}
		return *s.HolderIdentity
	}
	return holder(a) == holder(b) && same(a.RenewTime, b.RenewTime)
}

// holdTime returns the time until a renewed lease expires.
func holdTime(spec *coordinationv1.LeaseSpec) time.Duration {
	if spec.LeaseDurationSeconds == nil {
		return duration
	}
	return time.Duration(*spec.LeaseDurationSeconds) * time.Second
}

// release hands the lease over, so that another server need not wait until it ends.
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
		e.config.Logger.Debug("the controllers' lease was not handed over", "err", err)
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
