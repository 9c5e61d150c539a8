package upstream

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"

	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// valuePrefix is the prefix that the transformer of the tests adds to every value.
const valuePrefix = "test!"

// setup configures the storage of a suite.
type setup struct {
	cached        bool
	clusterScoped bool
}

func (cfg setup) open(t *testing.T) *Store {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	backend := storagetest.InMemory(t)
	s := &Store{
		backend: backend, scheme: scheme, kind: newKind(scheme), namespaced: !cfg.clusterScoped,
		transformer: newTransformer(storagetesting.NewPrefixTransformer([]byte(valuePrefix), false)),
	}
	plain, err := storage.New(storage.Config{
		Backend: backend, ResourcePrefix: "pods", Kind: s.kind, Namespaced: s.namespaced,
		Transformer: s.transformer, GroupResource: schema.GroupResource{Resource: "pods"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.objects, s.cached = plain, cfg.cached
	if cfg.cached {
		s.objects = newCacher(t, plain)
	}
	return s
}

// newCacher returns a cache for a store. The cache is updated until the test ends.
func newCacher(t *testing.T, store *storage.Store) storage.Interface {
	t.Helper()
	feed, err := cache.NewFeed(cache.FeedConfig{Backend: store.Backend(), Prefix: storage.DefaultPrefix})
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
	cacher, err := cache.New(cache.Config{Store: store, Feed: feed, IndexFields: []string{"spec.nodeName"}})
	if err != nil {
		t.Fatal(err)
	}
	return cacher
}

// compact removes the history before a revision. Like upstream's compaction, it also creates a new revision.
func (s *Store) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	t.Helper()
	revision, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	s.increaseRevision(ctx, t)
	if err := s.backend.Compact(ctx, kv.Revision(revision)); err != nil {
		t.Fatal(err)
	}
}

// compactMore compacts at a new revision instead of the given one. After a compaction, Mainstay's storage can
// still read the state at the compacted revision, but etcd cannot.
func (s *Store) compactMore(ctx context.Context, t *testing.T, _ string) {
	t.Helper()
	s.compact(ctx, t, strconv.FormatInt(s.increaseRevision(ctx, t), 10))
}

// increaseRevision writes an unrelated key and returns its revision.
func (s *Store) increaseRevision(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	res, err := s.backend.Commit(ctx, kv.Op{Key: storage.DefaultPrefix + "/other", Expect: kv.AnyRevision, Kind: kv.OpPut, Value: []byte("ok")})
	if err != nil {
		t.Fatal(err)
	}
	return int64(res.Revision)
}

// checkStored checks that the stored value of a key is transformed and contains no resourceVersion.
func (s *Store) checkStored(ctx context.Context, t *testing.T, key string) {
	t.Helper()
	entry, _, err := s.backend.Get(ctx, storage.DefaultPrefix+key, 0)
	if err != nil || entry == nil {
		t.Fatalf("nothing is stored under %s: %v", key, err)
	}
	value, ok := strings.CutPrefix(string(entry.Value), valuePrefix)
	if !ok {
		t.Fatalf("the stored value of %s is not transformed: %q", key, entry.Value)
	}
	obj, err := s.kind.DecodeStored([]byte(value), 0)
	if err != nil {
		t.Fatal(err)
	}
	if rv := obj.GetResourceVersion(); rv != "" {
		t.Errorf("%s is stored with resourceVersion %s", key, rv)
	}
}
