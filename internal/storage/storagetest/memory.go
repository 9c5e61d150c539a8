package storagetest

import (
	"testing"

	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// InMemory returns an empty store in memory and closes it when the test ends.
func InMemory(t testing.TB) *embedded.Store {
	t.Helper()
	backend, err := embedded.Open(embedded.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return backend
}

// Pods returns an uncached storage of pods in a backend, under the same keys as in a server.
func Pods(t testing.TB, backend kv.Backend) *storage.Store {
	t.Helper()
	store, err := storage.New(storage.Config{Backend: backend, ResourcePrefix: "pods", Kind: PodKind(), Namespaced: true})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// Opener returns a function that opens storage in a backend, for example for builtin.Env. The storage has
// no cache, no encryption and no Observer.
func Opener(backend kv.Backend) func(storage.Spec) (storage.Interface, error) {
	return func(spec storage.Spec) (storage.Interface, error) {
		return storage.New(storage.Config{
			Backend: backend, ResourcePrefix: spec.Path, Kind: spec.Kind, Namespaced: spec.Namespaced, GroupResource: spec.Resource,
		})
	}
}
