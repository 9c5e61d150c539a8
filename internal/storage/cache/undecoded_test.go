package cache

import (
	"testing"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestUndecodedChangesOfClosedCache checks that the progress of a closed cache does not include changes that
// the cache dropped without decoding them. Otherwise, a watch would skip these changes.
func TestUndecodedChangesOfClosedCache(t *testing.T) {
	t.Parallel()
	const loaded, undecoded, dispatched = 5, 7, 9
	backend := storagetest.InMemory(t)
	feed, err := NewFeed(FeedConfig{Backend: backend, Prefix: "/registry"})
	if err != nil {
		t.Fatal(err)
	}
	c := newWatchCache(storagetest.Pods(t, backend), feed, func(*watchCache) {})
	if err := c.load(t.Context(), func(func(*codec.Record, error) bool) {}, loaded); err != nil {
		t.Fatal(err)
	}
	c.mu.queue = []kv.Event{{Key: c.prefix + "a/b", Revision: undecoded}}
	for _, state := range []struct {
		name   string
		change func()
		want   int64
	}{
		{"open", func() {}, undecoded - 1},
		{"closed", c.close, loaded},
		{"closed, with a stopped decoder", func() { c.stopDecoder() }, loaded},
	} {
		state.change()
		c.mu.RLock()
		got := c.completeLocked(dispatched)
		c.mu.RUnlock()
		if got != state.want {
			t.Errorf("%s: complete up to revision %d, want %d", state.name, got, state.want)
		}
	}
}
