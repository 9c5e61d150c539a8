package controlplane

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/controllers/election"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/test/testserver"
)

// TestElection checks that only one of several control planes runs the controllers, and that another control
// plane runs them when the first one stops, or when its lease expires after a crash.
func TestElection(t *testing.T) {
	t.Parallel()
	c := newPlane(t, newEnv(t), "/election")
	if err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	access, stored := c.opened.Load().resources.access, c.opened.Load().controllers.manager.leases
	leases := loopback.For[*coordinationv1.Lease](access, coordinationv1.SchemeGroupVersion.WithResource("leases"))
	name := types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "mainstay-controllers"}
	now := metav1.NowMicro()
	killed := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new("killed"), LeaseDurationSeconds: new(int32(2)), RenewTime: &now, AcquireTime: &now, LeaseTransitions: new(int32(3)),
	}}
	if _, err := leases.Create(t.Context(), killed); err != nil {
		t.Fatal(err)
	}
	var acting, acted atomic.Int32
	run := func(identity string) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			election.New(election.Config{Access: access, Storage: stored, Identity: identity, Logger: slog.New(slog.DiscardHandler)}).Run(ctx, func(ctx context.Context) {
				if acting.Add(1) > 1 {
					t.Errorf("%s and another control plane run the controllers at the same time", identity)
				}
				acted.Add(1)
				<-ctx.Done()
				acting.Add(-1)
			})
		}()
		return func() { cancel(); <-ended }
	}
	stops := map[string]func(){"a": run("a"), "b": run("b"), "c": run("c")}
	for n := range int32(3) {
		var holder string
		testserver.Eventually(t, 2*time.Minute, func() error {
			lease, err := leases.Get(t.Context(), name)
			if err != nil {
				return err
			}
			if acted.Load() != n+1 || acting.Load() != 1 || lease.Spec.HolderIdentity == nil || stops[*lease.Spec.HolderIdentity] == nil {
				return errors.New("not exactly one of them runs the controllers")
			}
			holder = *lease.Spec.HolderIdentity
			if lease.Spec.LeaseTransitions == nil || *lease.Spec.LeaseTransitions != 4+n {
				t.Errorf("the lease is %+v", lease.Spec)
			}
			return nil
		})
		stops[holder]()
		delete(stops, holder)
	}
}
