package cache

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// run runs a feed until the test ends. The returned context ends then, or after a minute.
func run(t *testing.T, feed *Feed) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	var group sync.WaitGroup
	group.Go(func() { feed.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	return ctx
}

// TestIdle checks that an unused cache is dropped and loaded again.
func TestIdle(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	feed, err := NewFeed(FeedConfig{Backend: backend, Prefix: "/registry", Idle: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx := run(t, feed)
	store := storagetest.Pods(t, backend)
	c, err := New(Config{Store: store, Feed: feed})
	if err != nil {
		t.Fatal(err)
	}
	until := func(what string, ok func() bool) {
		for !ok() {
			if ctx.Err() != nil {
				t.Fatalf("no %s", what)
			}
			runtime.Gosched()
		}
	}
	until("start", feed.Running)
	// The cache can be dropped before the watch is attached to it, and the watch then reads the backend.
	var w rest.Watch
	var st *watchCache
	until("watched cache", func() bool {
		if w != nil {
			w.Close()
		}
		if w, err = c.Watch(ctx, "", rest.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		st = c.loaded.Load()
		return st != nil && st.watches.Load() > 0
	})
	if st.idleSince(time.Now().Add(time.Hour)) {
		t.Error("a watched cache was dropped")
	}
	w.Close()
	until("end of an idle cache", func() bool { return c.loaded.Load() == nil })
	until("removal of the cache from the feed", func() bool {
		_, ok := feed.caches.Load(store.Prefix())
		return !ok
	})
	if _, err := c.List(ctx, "", rest.ListOptions{}); err != nil {
		t.Errorf("list after the reload: %v", err)
	}
}

// TestRelease checks that the caches of a prefix are released, and loaded again by the next read.
func TestRelease(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	feed, err := NewFeed(FeedConfig{Backend: backend, Prefix: "/registry"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := run(t, feed)
	store := storagetest.Pods(t, backend)
	c, err := New(Config{Store: store, Feed: feed})
	if err != nil {
		t.Fatal(err)
	}
	for c.getOrLoad(ctx) == nil { // until the feed runs
		if ctx.Err() != nil {
			t.Fatal("no cache is loaded")
		}
		runtime.Gosched()
	}
	for prefix, want := range map[string]bool{"/other/": true, store.Prefix(): false} {
		loaded := c.getOrLoad(ctx)
		feed.Release(prefix)
		if loaded.isOpen() != want {
			t.Errorf("after Release(%q), the cache is open: %v", prefix, !want)
		}
	}
	if c.getOrLoad(ctx) == nil {
		t.Error("the cache is not loaded again")
	}
	(*Feed)(nil).Release("/")
}
