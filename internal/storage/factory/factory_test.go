package factory_test

import (
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/factory"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestOpenAgain opens the storage of a resource again while an object of the first storage is being encoded.
// It is useful only with -race.
func TestOpenAgain(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	memory, err := codec.NewEncodingCache(codec.EncodingCacheConfig{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := factory.New(factory.Config{Backend: backend, Encodings: memory})
	if err != nil {
		t.Fatal(err)
	}
	spec := storage.Spec{Path: "pods", Kind: storagetest.PodKind(), Namespaced: true, Resource: schema.GroupResource{Resource: "pods"}}
	first, err := f.Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}}
	written, err := first.Create(t.Context(), pod, storage.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var again sync.WaitGroup
	again.Go(func() {
		if _, err := f.Open(spec); err != nil {
			t.Error(err)
		}
	})
	if _, err := written.AppendJSONTail(nil, spec.Kind.Hub); err != nil {
		t.Error(err)
	}
	again.Wait()
}
