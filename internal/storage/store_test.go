package storage_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

func TestUndecorated(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storagetest.Setup{
		Backend: func(t testing.TB, dir string) kv.Backend {
			backend, err := embedded.Open(embedded.Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			return backend
		},
		Decorate: func(_ testing.TB, store *storage.Store) storage.Interface { return store },
	})
}

// TestConditionInAnotherBackend checks that a condition with a recheck has no effect if its object is in another
// backend, because a transaction cannot span two backends.
func TestConditionInAnotherBackend(t *testing.T) {
	t.Parallel()
	open := func(path string) *storage.Store {
		store, err := storage.New(storage.Config{Backend: storagetest.InMemory(t), ResourcePrefix: path, Kind: storagetest.PodKind(), Namespaced: true})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	tickets := open("tickets")
	op, err := tickets.Prepare(t.Context(), storage.OpRequest{
		Unchanged: &storage.Version{Name: types.NamespacedName{Namespace: "ns", Name: "missing"}, Revision: 1},
		Recheck:   func(*codec.Record) error { t.Error("the condition was checked"); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open("pods").Create(t.Context(), storagetest.Pod("ns", "p"), storage.WriteOptions{With: []*storage.Op{op}}); err != nil {
		t.Error(err)
	}
}
