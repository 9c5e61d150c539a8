package cache_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/internal/storage/storagetest"
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

// decorated returns a function that adds a cache to a store.
func decorated(limits cache.LogLimits) func(testing.TB, *storage.Store) storage.Interface {
	return func(t testing.TB, store *storage.Store) storage.Interface {
		feed := startFeed(t, cache.FeedConfig{Backend: store.Backend(), Prefix: root(store), Log: limits})
		return newCacher(t, store, feed)
	}
}

// root returns the first path segment of a store's keys.
func root(store *storage.Store) string {
	return "/" + strings.Split(store.Prefix(), "/")[1]
}

func newCacher(t testing.TB, store *storage.Store, feed *cache.Feed) *cache.Cacher {
	cacher, err := cache.New(cache.Config{Store: store, Feed: feed, IndexFields: []string{"spec.nodeName"}})
	if err != nil {
		t.Fatal(err)
	}
	return cacher
}

func TestCached(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storagetest.Setup{Backend: openEmbedded, Decorate: decorated(cache.LogLimits{})})
}

// TestTightLog runs the suite with a minimal log, so that every watch alternates between log and
// history.
func TestTightLog(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storagetest.Setup{Backend: openEmbedded, Decorate: decorated(cache.LogLimits{Changes: 2})})
}

// TestNotRunning runs the suite over caches whose feed does not run.
func TestNotRunning(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storagetest.Setup{Backend: openEmbedded, Decorate: func(t testing.TB, store *storage.Store) storage.Interface {
		feed, err := cache.NewFeed(cache.FeedConfig{Backend: store.Backend(), Prefix: root(store)})
		if err != nil {
			t.Fatal(err)
		}
		return newCacher(t, store, feed)
	}})
}

// TestFutureRevisionAtDeadline checks that a read of a future revision gets the same error if its deadline ends the
// wait for the revision. Otherwise, a watch with a short timeout would get an error without a meaning.
func TestFutureRevisionAtDeadline(t *testing.T) {
	t.Parallel()
	store, err := storage.New(storage.Config{Backend: storagetest.InMemory(t), ResourcePrefix: "registry/pods", Kind: storagetest.PodKind(), Namespaced: true})
	if err != nil {
		t.Fatal(err)
	}
	cached := decorated(cache.LogLimits{})(t, store)
	if _, err := cached.Create(t.Context(), storagetest.Pod("ns", "a"), storage.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cached.List(t.Context(), "ns", rest.ListOptions{}); err != nil { // loads the cache
		t.Fatal(err)
	}
	for cause, want := range map[error]bool{context.DeadlineExceeded: true, context.Canceled: false} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Millisecond, func() { cancel(cause) })
		_, err := cached.List(ctx, "ns", rest.ListOptions{ResourceVersion: "1000000", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
		if errors.As(err, new(*storage.FutureRevisionError)) != want || err == nil {
			t.Errorf("canceled with %v: error %v", cause, err)
		}
	}
}
