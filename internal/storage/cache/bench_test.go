package cache_test

import (
	"testing"

	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

func BenchmarkCached(b *testing.B) {
	storagetest.Bench(b, storagetest.Setup{Backend: openEmbedded, Decorate: decorated(cache.LogLimits{})})
}

func BenchmarkUndecorated(b *testing.B) {
	storagetest.Bench(b, storagetest.Setup{
		Backend:  openEmbedded,
		Decorate: func(_ testing.TB, store *storage.Store) storage.Interface { return store },
	})
}
