package bootstrap

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
)

// storedLease implements storage.Interface with one lease, or with none if lease is nil.
type storedLease struct {
	storage.Interface
	lease *coordinationv1.Lease
}

func (s storedLease) Get(context.Context, types.NamespacedName, storage.ReadOptions) (*codec.Record, error) {
	if s.lease == nil {
		return nil, storage.ErrNotFound
	}
	kind := &codec.Kind{Hub: &codec.Version{GVK: coordinationv1.SchemeGroupVersion.WithKind("Lease")}}
	return codec.RecordOf(kind, s.lease, nil, 0), nil
}

// TestIdentityLease checks that a server with its own store renews its lease if the stored lease expires soon
// or was deleted, regardless of whether the process has renewed the lease before.
func TestIdentityLease(t *testing.T) {
	t.Parallel()
	lease := func(remaining time.Duration) *coordinationv1.Lease {
		renewed := metav1.NewMicroTime(time.Now().Add(remaining - identityDuration))
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed, LeaseDurationSeconds: new(int32(identityDuration / time.Second))}}
	}
	for name, c := range map[string]struct {
		stored *coordinationv1.Lease
		valid  bool
	}{
		"deleted":          {},
		"without a time":   {stored: &coordinationv1.Lease{}},
		"ends soon":        {stored: lease(time.Minute)},
		"renewed recently": {stored: lease(50 * time.Minute), valid: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, renewed := range []time.Time{{}, time.Now()} {
				i := &identity{config: &Config{
					Identity: &Identity{ID: "server"}, Revision: func(context.Context) (int64, error) { return 1, nil },
					Stored: func(schema.GroupResource) (storage.Interface, error) { return storedLease{lease: c.stored}, nil },
				}}
				i.mu.renewed = renewed
				if valid := i.validLocked(t.Context()); valid != c.valid {
					t.Errorf("with a lease that was renewed at %v, valid is %t", renewed, valid)
				}
			}
		})
	}
}
