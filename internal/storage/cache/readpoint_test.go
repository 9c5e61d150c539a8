package cache_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/fanout"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// sharedBackend is a backend that several processes write to, like etcd. It is therefore not a
// kv.PrefixRevisioner. It counts the reads of the newest revision, each of which requires a quorum.
type sharedBackend struct {
	kv.Backend
	reads atomic.Int64
}

func (b *sharedBackend) CurrentRevision(ctx context.Context) (kv.Revision, error) {
	b.reads.Add(1)
	return b.Backend.CurrentRevision(ctx)
}

// TestReadPointSharesRevision checks that reads with a common ReadPoint read the newest revision of a shared
// backend only once, even through the decorators of control planes.
func TestReadPointSharesRevision(t *testing.T) {
	t.Parallel()
	for _, decorated := range []bool{false, true} {
		t.Run(fmt.Sprint("decorated=", decorated), func(t *testing.T) {
			t.Parallel()
			shared := &sharedBackend{Backend: storagetest.InMemory(t)}
			var backend kv.Backend = shared
			if decorated {
				decorator, err := fanout.New(t.Context(), overlay.New(shared), "/registry/")
				if err != nil {
					t.Fatal(err)
				}
				backend = decorator
			}
			store := storagetest.Pods(t, backend)
			cacher := newCacher(t, store, startFeed(t, cache.FeedConfig{Backend: backend, Prefix: "/registry"}))
			if _, err := cacher.Create(t.Context(), storagetest.Pod("ns", "a"), storage.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			get := func(ctx context.Context) {
				t.Helper()
				if _, err := cacher.Get(ctx, types.NamespacedName{Namespace: "ns", Name: "a"}, storage.ReadOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			get(t.Context()) // loads the cache, and waits until it has the object
			ctx, before := rest.WithReadPoint(t.Context()), shared.reads.Load()
			for range 10 {
				get(ctx)
			}
			if n := shared.reads.Load() - before; n != 1 {
				t.Errorf("10 reads with a common ReadPoint have read the newest revision %d times, want 1", n)
			}
		})
	}
}
