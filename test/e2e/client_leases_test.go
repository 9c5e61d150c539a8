package e2e

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

var leading = []clientBehavior{
	{"transfer leadership when the leader stops", leaseHandover},
	{"expire when the leader disappears", leaseExpiry},
}

// candidate takes part in a leader election until its context ends.
type candidate struct {
	name    string
	leading atomic.Bool
	stop    context.CancelFunc
	done    chan struct{}
}

func newCandidate(t *testing.T, c *clients, name string, release bool) *candidate {
	t.Helper()
	return newPatientCandidate(t, c, name, release, 3*time.Second)
}

// newPatientCandidate is like newCandidate, but uses the given lease duration.
func newPatientCandidate(t *testing.T, c *clients, name string, release bool, lease time.Duration) *candidate {
	t.Helper()
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, c.namespace, "leader", c.kube.CoreV1(), c.kube.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: name})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	run := &candidate{name: name, stop: stop, done: make(chan struct{})}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, ReleaseOnCancel: release,
		LeaseDuration: lease, RenewDeadline: lease * 2 / 3, RetryPeriod: 100 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { run.leading.Store(true) },
			OnStoppedLeading: func() { run.leading.Store(false) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(run.done)
		elector.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-run.done })
	return run
}

func (run *candidate) leads() error {
	if !run.leading.Load() {
		return fmt.Errorf("%s is not the leader", run.name)
	}
	return nil
}

func leaseHandover(t *testing.T, c *clients) {
	first := newCandidate(t, c, "first", true)
	eventually(t, first.leads)
	second := newCandidate(t, c, "second", true)
	first.stop()
	<-first.done
	eventually(t, second.leads)
	lease, err := c.kube.CoordinationV1().Leases(c.namespace).Get(t.Context(), "leader", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *lease.Spec.HolderIdentity != "second" || *lease.Spec.LeaseTransitions < 1 {
		t.Errorf("held by %s after %d transitions", *lease.Spec.HolderIdentity, *lease.Spec.LeaseTransitions)
	}
}

func leaseExpiry(t *testing.T, c *clients) {
	first := newCandidate(t, c, "first", false)
	eventually(t, first.leads)
	first.stop()
	<-first.done
	second := newCandidate(t, c, "second", false)
	eventually(t, second.leads)
}
