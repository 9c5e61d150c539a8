package cache_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"mainstay.dev/mainstay/storage"
	"mainstay.dev/mainstay/storage/cache"
	"mainstay.dev/mainstay/storage/kv"
	"mainstay.dev/mainstay/storage/kv/embedded"
	"mainstay.dev/mainstay/storage/storagetest"
)

func openEmbedded(t testing.TB, dir string) kv.Backend {
	backend, err := embedded.Open(embedded.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return backend
}

// startFeed runs a feed until the test ends.
func startFeed(t testing.TB, cfg cache.FeedConfig) *cache.Feed {
	feed, err := cache.NewFeed(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { feed.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	for !feed.Running() {
		runtime.Gosched()
	}
	return feed
}

func decorate(t testing.TB, store *storage.Store) storage.Interface {
	feed := startFeed(t, cache.FeedConfig{Backend: store.Backend(), Prefix: "/registry"})
	cacher, err := cache.New(cache.Config{Store: store, Feed: feed, IndexFields: []string{"spec.nodeName"}})
	if err != nil {
		t.Fatal(err)
	}
	return cacher
}

func TestCached(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storagetest.Setup{Backend: openEmbedded, Decorate: decorate})
}
