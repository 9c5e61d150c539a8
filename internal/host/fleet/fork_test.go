package fleet

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
)

// hookedBackend calls a function before it returns the current revision.
type hookedBackend struct {
	kv.Backend
	kv.Pinner
	before func()
}

func (b *hookedBackend) CurrentRevision(ctx context.Context) (kv.Revision, error) {
	b.before()
	return b.Backend.CurrentRevision(ctx)
}

// getterFunc is a storage for ControlPlane objects.
type getterFunc func() storedObject

// Get implements rest.Getter.
func (f getterFunc) Get(ctx context.Context, name types.NamespacedName, options metav1.GetOptions) (*codec.Record, error) {
	return f().Get(ctx, name, options)
}

// TestForkOfDeleted checks that a fork never contains the state of a source whose objects are being deleted.
func TestForkOfDeleted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		local, remote bool // this process, or another server, deletes the source when the revision is read
		want          string
	}{
		"no deletion":                {false, false, ""},
		"deletion":                   {true, true, "SourceNotFound"},
		"deletion by another server": {false, true, "SourceNotFound"},
	} {
		f, backend := newTestFleet(t)
		f.synced, f.mu.waiting = make(chan struct{}), map[string][]planeKey{}
		close(f.synced)
		f.templates = newTemplates(f)
		f.templates.mu.version = "x" // not recorded in this test
		source := newPlane(f, planeKey{"a", "uid-a"})
		f.mu.planes["a"] = source
		stored := storedObject("uid-a")
		f.objects = loopback.For[*unstructured.Unstructured](&loopback.Access{Find: func(schema.GroupVersion, string, string) *rest.Resource {
			return &rest.Resource{Storage: getterFunc(func() storedObject { return stored }), Version: objectVersion()}
		}}, controlplanes.Resource())
		commit := func(ops ...kv.Op) {
			if _, err := backend.Commit(t.Context(), ops...); err != nil {
				t.Fatal(err)
			}
		}
		commit(kv.Op{Key: f.objectPrefix("uid-a") + "/pods/a/b", Value: []byte("x")})
		if _, err := f.ensureKeys(t.Context(), source.key, nil); err != nil {
			t.Fatal(err)
		}
		f.config.Backend = overlay.New(&hookedBackend{backend, backend.(kv.Pinner), func() {
			if tt.local {
				source.remove()
			}
			if tt.remote {
				stored = ""
				commit(kv.Op{Key: f.objectPrefix("uid-a") + "/pods/a/b", Kind: kv.OpDelete, Expect: kv.AnyRevision})
			}
		}})
		begun, _, err := f.fork(t.Context(), planeKey{"b", "uid-b"}, &controlplanes.Source{ControlPlane: "a"})
		reason := ""
		if failed := (*sourceError)(nil); errors.As(err, &failed) {
			reason = failed.reason
		}
		if reason != tt.want || tt.want == "" && (err != nil || len(begun.Layers) != 1) {
			t.Errorf("%s: fork with the layers %v, error %v, want the reason %q", name, begun.Layers, err, tt.want)
		}
	}
}
