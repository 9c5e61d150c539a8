package cache

import (
	"context"
	"runtime"
	"testing"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// compactedBackend is a backend whose watches end with kv.ErrCompacted when end is closed.
type compactedBackend struct {
	kv.Backend
	end chan kv.Batch
}

func (b compactedBackend) Watch(context.Context, string, string, kv.Revision) (kv.Watch, error) {
	return compactedWatch(b), nil
}

type compactedWatch compactedBackend

func (w compactedWatch) Batches() <-chan kv.Batch { return w.end }
func (w compactedWatch) Err() error               { return kv.ErrCompacted }
func (w compactedWatch) Stop()                    {}

// TestNoCacheAttachesToLostWatch checks that no cache attaches to a feed that has lost events, while the
// feed closes the attached caches. The feed continues at a newer revision, and a cache that is loaded in
// between would miss the changes before this revision.
func TestNoCacheAttachesToLostWatch(t *testing.T) {
	t.Parallel()
	backend := compactedBackend{Backend: storagetest.InMemory(t), end: make(chan kv.Batch)}
	feed, err := NewFeed(FeedConfig{Backend: backend, Prefix: "/registry"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := run(t, feed)
	store := storagetest.Pods(t, backend)
	attached := make(chan bool, 1)
	first := newWatchCache(store, feed, func(*watchCache) {
		attached <- feed.attach(newWatchCache(store, feed, func(*watchCache) {}))
	})
	for !feed.attach(first) { // until the feed runs
		if ctx.Err() != nil {
			t.Fatal("the feed does not run")
		}
		runtime.Gosched()
	}
	close(backend.end)
	select {
	case ok := <-attached:
		if ok {
			t.Error("a cache was attached after events were lost")
		}
	case <-ctx.Done():
		t.Error("the attached cache was not closed")
	}
}

// TestCacheOfWholeFeed checks that a cache receives events if it has the same prefix as the feed.
func TestCacheOfWholeFeed(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	store := storagetest.Pods(t, backend)
	feed, err := NewFeed(FeedConfig{Backend: backend, Prefix: store.Prefix()})
	if err != nil {
		t.Fatal(err)
	}
	feed.dispatched.Store(0)
	st := newWatchCache(store, feed, func(*watchCache) {})
	if !feed.attach(st) {
		t.Fatal("the feed does not run")
	}
	if got := feed.cachesOf(store.Prefix() + "ns/a"); len(got) != 1 || got[0] != st {
		t.Errorf("caches of a key: %v, want one", got)
	}
}
