package etcd_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/etcd"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// backends returns a function that opens stores. Stores with the same directory share an etcd cluster.
func backends() func(testing.TB, string) kv.Backend {
	var clusters sync.Map
	return func(t testing.TB, dir string) kv.Backend {
		t.Helper()
		cluster, ok := clusters.Load(dir)
		if !ok {
			cluster = etcdtest.Start(t, etcdtest.Options{})
			clusters.Store(dir, cluster)
		}
		s, err := etcd.Open(etcd.Config{Endpoints: cluster.(*etcdtest.Cluster).URLs()})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// TestStorage runs the storage test suite on etcd, with and without the cache.
func TestStorage(t *testing.T) {
	t.Parallel()
	t.Run("Plain", func(t *testing.T) {
		t.Parallel()
		if testing.Short() {
			t.Skip("Cached runs the same suite, and TestBackend covers the reads of the store")
		}
		storagetest.Run(t, storagetest.Setup{
			Backend: backends(), Remote: true,
			Decorate: func(_ testing.TB, store *storage.Store) storage.Interface { return store },
		})
	})
	t.Run("Cached", func(t *testing.T) {
		t.Parallel()
		storagetest.Run(t, storagetest.Setup{Backend: backends(), Decorate: cached, Remote: true})
	})
}

func cached(t testing.TB, store *storage.Store) storage.Interface {
	t.Helper()
	feed, err := cache.NewFeed(cache.FeedConfig{Backend: store.Backend(), Prefix: "/" + strings.Split(store.Prefix(), "/")[1]})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = feed.Run(ctx) // the suite closes the backend first
	}()
	t.Cleanup(func() { cancel(); <-done })
	cacher, err := cache.New(cache.Config{Store: store, Feed: feed, IndexFields: []string{"spec.nodeName"}})
	if err != nil {
		t.Fatal(err)
	}
	return cacher
}
