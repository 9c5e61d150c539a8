package storage_test

import (
	"testing"

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
