package fleet

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv"
)

func objectVersion() *codec.Version {
	return &codec.Version{
		GVK: controlplanes.Resource().GroupVersion().WithKind(controlplanes.Kind), Untyped: true,
		New: func() codec.Object { return &unstructured.Unstructured{Object: map[string]any{}} },
	}
}

// storedObject is a storage for ControlPlane objects. It contains one object, which has the given UID, or no
// object if the UID is "".
type storedObject types.UID

// Get implements rest.Getter.
func (s storedObject) Get(_ context.Context, name types.NamespacedName, _ metav1.GetOptions) (*codec.Record, error) {
	if s == "" {
		return nil, apierrors.NewNotFound(controlplanes.Resource().GroupResource(), name.Name)
	}
	text := fmt.Sprintf(`{"apiVersion":"mainstay.dev/v1","kind":"ControlPlane","metadata":{"name":%q,"uid":%q},"spec":{}}`, name.Name, s)
	return codec.NewRecord(&codec.Kind{Hub: objectVersion()}, name, []byte(text), 9), nil
}

// TestReconcileDeleted checks that a control plane is removed if its object no longer exists. This happens if
// the object is deleted while Create creates the Secret, because the event of the deletion arrives before
// Create adds the control plane.
func TestReconcileDeleted(t *testing.T) {
	t.Parallel()
	for _, stored := range []storedObject{"", "uid-next"} {
		f, backend := newTestFleet(t)
		f.objects = loopback.For[*unstructured.Unstructured](&loopback.Access{Find: func(schema.GroupVersion, string, string) *rest.Resource {
			return &rest.Resource{Storage: stored, Version: objectVersion()}
		}}, controlplanes.Resource())
		if _, err := backend.Commit(t.Context(), kv.Op{Key: f.identityKey("uid-a"), Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		f.update(&controlplanes.ControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid-a", ResourceVersion: "5"}}) // as Create does
		if err := f.reconcile(t.Context(), planeKey{"a", "uid-a"}); err != nil {
			t.Fatal(err)
		}
		f.running.Wait()
		if keys, err := f.storedUIDs(t.Context()); err != nil || len(keys) != 0 || f.HasControlPlanes() {
			t.Errorf("the stored object has the UID %q: the control planes are %v, and the store has the keys of %v, %v", stored, f.all(), keys, err)
		}
	}
}
