package cache_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// withoutNotes is a backend that drops notes, so that watches decode values as they do for writes of another
// process.
type withoutNotes struct{ kv.Backend }

func (b withoutNotes) Commit(ctx context.Context, ops ...kv.Op) (kv.CommitResult, error) {
	ops = append([]kv.Op(nil), ops...)
	for i := range ops {
		ops[i].Note = nil
	}
	return b.Backend.Commit(ctx, ops...)
}

// keyService is a transformer with a slow key service. slow, if not nil, is called before the value of a key
// is decrypted; it may block, and its error is returned.
type keyService struct {
	slow func(ctx context.Context, key string) error
}

const sealedBy = "sealed:"

func (k *keyService) ToStorage(_ context.Context, plain []byte, _ string) ([]byte, error) {
	return append([]byte(sealedBy), plain...), nil
}

func (k *keyService) FromStorage(ctx context.Context, data []byte, key string) ([]byte, bool, error) {
	if k.slow != nil {
		if err := k.slow(ctx, key); err != nil {
			return nil, false, err
		}
	}
	return bytes.TrimPrefix(data, []byte(sealedBy)), false, nil
}

// TestEncrypted runs the suite over caches that have to decrypt every change.
func TestEncrypted(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storagetest.Setup{
		Backend:  func(t testing.TB, dir string) kv.Backend { return withoutNotes{openEmbedded(t, dir)} },
		Decorate: decorated(cache.LogLimits{}), Remote: true, Transformer: &keyService{},
	})
}

// newEncrypted returns the cached storage of a resource with encrypted values.
func newEncrypted(t *testing.T, backend kv.Backend, feed *cache.Feed, resource string, keys *keyService) *cache.Cacher {
	t.Helper()
	store, err := storage.New(storage.Config{
		Backend: backend, ResourcePrefix: resource, Kind: storagetest.PodKind(), Namespaced: true, Transformer: keys,
		GroupResource: schema.GroupResource{Resource: resource},
	})
	if err != nil {
		t.Fatal(err)
	}
	return newCacher(t, store, feed)
}

// TestSlowKeyService checks that while values of one resource cannot be decrypted, other resources
// can be read and watched with the same feed, no read of the slow resource is stale, and finally
// all events are delivered.
func TestSlowKeyService(t *testing.T) {
	t.Parallel()
	backend := withoutNotes{openEmbedded(t, t.TempDir())}
	t.Cleanup(func() { backend.Close() })
	feed := startFeed(t, cache.FeedConfig{Backend: backend, Prefix: storage.DefaultPrefix})
	answers := make(chan struct{})
	secrets := newEncrypted(t, backend, feed, "secrets", &keyService{slow: func(ctx context.Context, key string) error {
		if !strings.HasSuffix(key, "/slow") {
			return nil
		}
		select {
		case <-answers:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	pods := newEncrypted(t, backend, feed, "pods", &keyService{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	list := func(c *cache.Cacher) int {
		t.Helper()
		listed, err := c.List(ctx, "", rest.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range listed.Items {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	create := func(c *cache.Cacher, name string) int64 {
		t.Helper()
		record, err := c.Create(ctx, storagetest.Pod("ns", name), storage.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return record.Revision()
	}
	create(secrets, "first")
	if list(secrets) != 1 || list(pods) != 0 { // both caches are loaded
		t.Fatal("lists are wrong")
	}
	watch, err := secrets.Watch(ctx, "", rest.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	create(secrets, "slow")
	behind := create(secrets, "behind")

	for i, name := range []string{"a", "b", "c"} {
		create(pods, name)
		if got := list(pods); got != i+1 {
			t.Fatalf("%d pods, want %d", got, i+1)
		}
	}
	if feed.Dispatched() < kv.Revision(behind) {
		t.Error("the feed waits for the key service")
	}
	// A read that must include the slow value waits for its decryption.
	brief, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if record, err := secrets.Get(brief, types.NamespacedName{Namespace: "ns", Name: "slow"}, storage.ReadOptions{}); err == nil {
		t.Errorf("read %s, which cannot be decrypted", record.Name())
	}
	close(answers)
	if got := list(secrets); got != 3 {
		t.Errorf("%d secrets, want 3", got)
	}
	var seen []string
	for len(seen) < 3 {
		events, err := watch.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range events {
			seen = append(seen, event.Record.Name().Name)
		}
	}
	if got := strings.Join(seen, " "); got != "first slow behind" {
		t.Errorf("events of the watch: %q", got)
	}
}
