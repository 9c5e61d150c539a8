package fleet

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// newTestFleet returns a Fleet without control planes and its store. It does not follow objects.
func newTestFleet(t *testing.T) (*Fleet, kv.Backend) {
	t.Helper()
	backend := storagetest.InMemory(t)
	env := &controlplane.Env{Storage: controlplane.Storage{Backend: backend}, Telemetry: controlplane.Telemetry{Logger: slog.New(slog.DiscardHandler)}}
	f := &Fleet{config: Config{Env: env, Backend: overlay.New(backend), Prefix: "/planes/"}, logger: env.Telemetry.Logger}
	f.lifetime, f.stop = context.WithCancel(t.Context())
	t.Cleanup(f.stop)
	f.mu.planes = map[string]*plane{}
	return f, backend
}

// TestUnreadableObject checks that replaceObjects deletes the keys of a control plane whose object is not in
// the list, but not the keys of a control plane whose object cannot be decoded.
func TestUnreadableObject(t *testing.T) {
	t.Parallel()
	f, backend := newTestFleet(t)
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

// TestCreatedAfterList checks that replaceObjects does not delete the keys of a control plane that was created
// after the list was read.
func TestCreatedAfterList(t *testing.T) {
	t.Parallel()
	for revision, remains := range map[int64]bool{4: true, 5: false} {
		f, backend := newTestFleet(t)
		if _, err := backend.Commit(t.Context(), kv.Op{Key: f.identityKey("uid-a"), Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		f.update(&controlplanes.ControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid-a", ResourceVersion: "5"}}) // as Create does
		empty := &rest.List{Revision: revision, Items: func(func(*codec.Record, error) bool) {}}
		if err := f.replaceObjects(t.Context(), empty); err != nil {
			t.Fatal(err)
		}
		f.running.Wait()
		stored, err := f.storedUIDs(t.Context())
		if err != nil || stored.Has("uid-a") != remains || f.HasControlPlanes() != remains {
			t.Errorf("after a list at revision %d, there are the control planes %v and the keys of %v, %v", revision, f.all(), stored, err)
		}
	}
}

// TestOldObject checks that an object that is older than the known state has no effect. Create adds a control
// plane before the reflector receives its object. At the same time, the reflector may receive older objects
// with the same name.
func TestOldObject(t *testing.T) {
	t.Parallel()
	object := func(uid, revision string, paused bool) *controlplanes.ControlPlane {
		return &controlplanes.ControlPlane{
			ObjectMeta: metav1.ObjectMeta{Name: "a", UID: types.UID(uid), ResourceVersion: revision}, Spec: controlplanes.Spec{Paused: paused},
		}
	}
	for name, tt := range map[string]struct {
		old    *controlplanes.ControlPlane
		uid    types.UID // UID of the remaining control plane
		usable error
	}{
		"deleted object": {object("uid-before", "4", true), "uid-a", nil},
		"older state":    {object("uid-a", "4", true), "uid-a", nil},
		"newer state":    {object("uid-a", "6", true), "uid-a", errPaused},
		"next object":    {object("uid-after", "6", true), "uid-after", errPaused},
		"same state":     {object("uid-a", "5", false), "uid-a", nil},
	} {
		f, backend := newTestFleet(t)
		for _, uid := range []types.UID{"uid-a", "uid-after"} {
			if _, err := backend.Commit(t.Context(), kv.Op{Key: f.identityKey(uid), Value: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
		f.update(object("uid-a", "5", false)) // as Create does
		f.update(tt.old)
		f.running.Wait()
		p := f.mu.planes["a"]
		if p.key.uid != tt.uid || !errors.Is(p.usable(), tt.usable) {
			t.Errorf("%s: the control plane has the UID %s and the state %v", name, p.key.uid, p.usable())
		}
		if stored, err := f.storedUIDs(t.Context()); err != nil || !stored.Has(tt.uid) {
			t.Errorf("%s: the store has the keys of %v, %v", name, stored, err)
		}
	}
}

// TestChangedToken checks that the token of an administrator is valid only while the Secret contains it.
func TestChangedToken(t *testing.T) {
	t.Parallel()
	secret := func(uid, token string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a-kubeconfig","namespace":"kube-system",
			"ownerReferences":[{"apiVersion":"mainstay.dev/v1","kind":"ControlPlane","name":"a","uid":%q}]},"type":"mainstay.dev/kubeconfig","data":{"token":%q}}`,
			uid, base64.StdEncoding.EncodeToString([]byte(token)))
	}
	kind := &codec.Kind{Hub: &codec.Version{GVK: corev1.SchemeGroupVersion.WithKind("Secret"), New: func() codec.Object { return &corev1.Secret{} }}}
	for name, tt := range map[string]struct {
		changed string
		valid   string // "" if no token is valid
	}{
		"unchanged":     {secret("uid-a", "first"), "first"},
		"other token":   {secret("uid-a", "second"), "second"},
		"no token":      {secret("uid-a", ""), ""},
		"another owner": {secret("uid-b", "first"), ""},
		"no owner":      {`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a-kubeconfig","namespace":"kube-system"},"type":"mainstay.dev/kubeconfig","data":{"token":"Zmlyc3Q="}}`, ""},
	} {
		f := &Fleet{logger: slog.New(slog.DiscardHandler)}
		f.mu.planes = map[string]*plane{"a": newPlane(f, planeKey{"a", "uid-a"})}
		f.mu.hashes = map[types.UID]tokenHash{}
		event := func(of watch.EventType, text string, revision int64) rest.Event {
			return rest.Event{Type: of, Record: codec.NewRecord(kind, types.NamespacedName{Namespace: "kube-system", Name: "a-kubeconfig"}, []byte(text), revision)}
		}
		events := []rest.Event{event(watch.Added, secret("uid-a", "first"), 1), event(watch.Modified, tt.changed, 2)}
		if err := f.applyTokens(t.Context(), events); err != nil {
			t.Fatal(err)
		}
		for _, token := range []string{"", "first", "second"} {
			if got, want := f.administrator("uid-a", token) != nil, token != "" && token == tt.valid; got != want {
				t.Errorf("%s: the token %q is valid: %v, want %v", name, token, got, want)
			}
		}
	}
}
