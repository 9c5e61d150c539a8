package fleet

import (
	"context"
	"log/slog"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestUnreadableObject checks that a new list of the objects deletes the keys of a control plane without an
// object, but not the keys of a control plane whose object cannot be decoded.
func TestUnreadableObject(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	env := &controlplane.Env{Storage: controlplane.Storage{Backend: backend}, Telemetry: controlplane.Telemetry{Logger: slog.New(slog.DiscardHandler)}}
	f := &Fleet{config: Config{Env: env, Backend: overlay.New(backend), Prefix: "/planes/"}, logger: env.Telemetry.Logger}
	f.lifetime, f.stop = context.WithCancel(t.Context())
	defer f.stop()
	f.mu.planes = map[string]*plane{}
	for _, name := range []string{"unreadable", "missing"} {
		uid := types.UID("uid-" + name)
		f.mu.planes[name] = newPlane(f, planeKey{name, uid})
		if _, err := backend.Commit(t.Context(), kv.Op{Key: f.objectPrefix(uid) + "/pods/a/b", Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	version := &codec.Version{
		GVK: controlplanes.Resource().GroupVersion().WithKind(controlplanes.Kind), Untyped: true,
		New: func() codec.Object { return &unstructured.Unstructured{Object: map[string]any{}} },
	}
	record := codec.NewRecord(&codec.Kind{Hub: version}, types.NamespacedName{Name: "unreadable"},
		[]byte(`{"apiVersion":"mainstay.dev/v1","kind":"ControlPlane","metadata":{"name":"unreadable","uid":"uid-unreadable"},"spec":{"limits":"none"}}`), 1)
	list := &rest.List{Revision: 2, Items: func(yield func(*codec.Record, error) bool) { yield(record, nil) }}
	if err := f.replaceObjects(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	f.running.Wait()
	stored, err := f.storedUIDs(t.Context())
	if err != nil || len(stored) != 1 || !stored.Has("uid-unreadable") || len(f.all()) != 1 {
		t.Errorf("stored control planes: %v %v", stored, err)
	}
}
