package flowschemas

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
)

// revertingAPI contains a schema whose status is reverted in each write, as by a mutating policy. Each write
// changes the schema and notifies the Conditions.
type revertingAPI struct {
	loopback.API
	kind       *codec.Kind
	writes     atomic.Int64
	conditions *Conditions
}

// maxReverted is the maximum number of writes that the API accepts.
const maxReverted = 500

func (a *revertingAPI) Apply(ctx context.Context, _ *rest.Resource, _ *unstructured.Unstructured, _ metav1.ApplyOptions) (*codec.Record, error) {
	if a.writes.Add(1) > maxReverted {
		return nil, apierrors.NewInternalError(context.Canceled)
	}
	a.conditions.SyncSchema("s")
	return storedSchema{a}.Get(ctx, types.NamespacedName{}, metav1.GetOptions{})
}

// storedSchema is the storage of the schema.
type storedSchema struct{ *revertingAPI }

func (a storedSchema) Get(context.Context, types.NamespacedName, metav1.GetOptions) (*codec.Record, error) {
	obj := &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "s", Annotations: map[string]string{"writes": strconv.FormatInt(a.writes.Load(), 10)}}}
	obj.Spec.PriorityLevelConfiguration.Name = "l"
	return codec.RecordOf(a.kind, obj, nil, a.writes.Load()+1), nil
}

func (storedSchema) Update(context.Context, types.NamespacedName, rest.UpdateFunc, rest.UpdateOptions) (*codec.Record, bool, error) {
	panic("not used")
}

type noLevels struct{}

func (noLevels) Get(context.Context, types.NamespacedName, metav1.GetOptions) (*codec.Record, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "prioritylevelconfigurations"}, "l")
}

// TestRevertedCondition checks that a policy that removes the condition from each write does not cause endless
// or endlessly nested writes.
func TestRevertedCondition(t *testing.T) {
	t.Parallel()
	hub := &codec.Version{GVK: flowcontrolv1.SchemeGroupVersion.WithKind("FlowSchema"), New: func() codec.Object { return &flowcontrolv1.FlowSchema{} }}
	api := &revertingAPI{kind: &codec.Kind{Hub: hub, Versions: []*codec.Version{hub}}}
	access := &loopback.Access{API: api, Find: func(_ schema.GroupVersion, resource, _ string) *rest.Resource {
		if resource == "flowschemas" {
			return &rest.Resource{Version: hub, Storage: storedSchema{api}}
		}
		return &rest.Resource{Version: hub, Storage: noLevels{}}
	}}
	api.conditions = New(t.Context(), access, Stored{}, slog.New(slog.DiscardHandler))
	api.conditions.Enable()
	api.conditions.SyncSchema("s")
	if n := api.writes.Load(); n == 0 || n > maxWrites {
		t.Errorf("%d writes, want at most %d", n, maxWrites)
	}
	api.writes.Store(0)
	api.conditions.SyncSchema("s")
	if api.writes.Load() == 0 {
		t.Error("a later update does not write")
	}
}
