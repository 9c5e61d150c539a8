package custom

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestObjectsGoWithTheirDefinition checks that the objects of a definition are deleted before the definition,
// even if its Established condition is not stored yet. Objects at a path that another resource uses are not
// deleted.
func TestObjectsGoWithTheirDefinition(t *testing.T) {
	t.Parallel()
	for name, foreign := range map[string]bool{"own path": false, "path of another resource": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sourceOver(t, storagetest.InMemory(t), 0)
			s.config.PathShared = func(path string) bool { return foreign && path == "a.example.com/widgets" }
			ctx := request.NewContext(t.Context(), &request.Info{}, time.Now())
			crd := widgetDefinition("a.example.com")
			crd.Finalizers = []string{definition.CleanupFinalizer}
			record, err := s.config.Definitions.Create(ctx, crd, storage.WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			s.observe(newEntry(crd, record.Revision()), false)
			e := s.current.Load().find("a.example.com", "widgets")
			e.derived.release() // as if another server had served it
			objects := instances{newVersionResources(s, e, &e.versions[0]).handler}
			if _, err := objects.Create(ctx, widget("one"), nil, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if done, err := s.controller.finalizeOnce(ctx, crd.Name, crd.UID); !done || err != nil {
				t.Fatalf("done %v, error %v", done, err)
			}
			if _, err := s.config.Definitions.Get(ctx, types.NamespacedName{Name: crd.Name}, storage.ReadOptions{}); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("get the deleted definition: got error %v, want ErrNotFound", err)
			}
			o, err := objects.handler.open(ctx)
			if err != nil {
				t.Fatal(err)
			}
			list, err := o.store.List(ctx, "", rest.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for range list.Items {
				found = true
			}
			if found != foreign {
				t.Errorf("the object still exists: %v, want %v", found, foreign)
			}
		})
	}
}
