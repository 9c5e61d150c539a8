package election

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
)

// hangingAPI is an API whose first write of the lease succeeds after a second. Later writes block until their
// context ends.
type hangingAPI struct {
	loopback.API
	kind   *codec.Kind
	writes int
}

func (a *hangingAPI) Update(ctx context.Context, _ *rest.Resource, change func(codec.Object) (codec.Object, error), _ metav1.UpdateOptions) (*codec.Record, error) {
	if a.writes++; a.writes > 1 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	obj, err := change(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName}})
	if err != nil {
		return nil, err
	}
	time.Sleep(time.Second)
	return codec.RecordOf(a.kind, obj, nil, 1), nil
}

type updater struct{}

func (updater) Update(context.Context, types.NamespacedName, rest.UpdateFunc, rest.UpdateOptions) (*codec.Record, bool, error) {
	panic("not used")
}

// TestHangingRenewal checks that the holder stops before its lease expires if the renewal does not return.
func TestHangingRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := &codec.Version{GVK: coordinationv1.SchemeGroupVersion.WithKind("Lease"), New: func() codec.Object { return &coordinationv1.Lease{} }}
		api := &hangingAPI{kind: &codec.Kind{Hub: hub, Versions: []*codec.Version{hub}}}
		access := &loopback.Access{API: api, Find: func(schema.GroupVersion, string, string) *rest.Resource {
			return &rest.Resource{Version: hub, Storage: updater{}}
		}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		e := New(Config{Access: access, Identity: "a", Logger: slog.New(slog.DiscardHandler)})
		e.Run(ctx, func(term context.Context) {
			<-term.Done()
			if ctx.Err() == nil {
				if held := time.Since(began); held != renewDeadline {
					t.Errorf("the holder stopped after %v, want %v", held, renewDeadline)
				}
			}
			cancel()
		})
	})
}
