package garbage

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// oneObject is a store that returns the same object for every key.
type oneObject struct {
	kv.Backend
	value string
}

func (s oneObject) Get(_ context.Context, key string, _ kv.Revision) (*kv.Entry, kv.Revision, error) {
	return &kv.Entry{Key: key, Value: []byte(s.value), Modified: 1}, 1, nil
}

// TestIncompleteGraph checks that the deletion of an owner is not completed while the graph may lack
// dependents, which is the case after the change feed has failed.
func TestIncompleteGraph(t *testing.T) {
	t.Parallel()
	for _, finalizer := range []string{metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents} {
		t.Run(finalizer, func(t *testing.T) {
			t.Parallel()
			writes := 0
			store := oneObject{value: fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"uid":"u","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":[%q]}}`, finalizer)}
			resource := changes.Resource{Resource: &rest.Resource{Name: "configmaps"}, Path: "configmaps", Backend: store}
			w := &worker{graph: newGraph(), Collector: &Collector{
				config: Config{ResourceByPath: func(string) (changes.Resource, bool) { return resource, true }},
				access: &loopback.Access{Find: func(schema.GroupVersion, string, string) *rest.Resource { writes++; return nil }},
			}}
			owner := w.graph.objectAt("configmaps", "default", "a")
			for range 2 {
				w.Reset()
				if err := w.process(t.Context(), owner); err != nil || writes > 0 {
					t.Fatalf("with an incomplete graph: %d writes, %v", writes, err)
				}
				w.Synced()
				if err := w.process(t.Context(), owner); err == nil || writes == 0 {
					t.Errorf("with a complete graph: %d writes, %v", writes, err)
				}
				writes = 0
			}
		})
	}
}
