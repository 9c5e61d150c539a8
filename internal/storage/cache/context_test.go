package cache_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
	"weak"

	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/storagetest"
	"mainstay.dev/mainstay/test/testserver"
)

type requestKey struct{}

// TestLoadReleasesRequest checks that a loaded cache does not retain the context of the request that loaded it.
func TestLoadReleasesRequest(t *testing.T) {
	t.Parallel()
	store := storagetest.Pods(t, storagetest.InMemory(t))
	cacher := newCacher(t, store, startFeed(t, cache.FeedConfig{Backend: store.Backend(), Prefix: root(store)}))
	list := func() weak.Pointer[[64]byte] {
		request := new([64]byte)
		if _, err := cacher.List(context.WithValue(t.Context(), requestKey{}, request), "", rest.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		return weak.Make(request)
	}
	request := list()
	testserver.Eventually(t, time.Minute, func() error {
		if runtime.GC(); request.Value() != nil {
			return errors.New("the request is still in memory")
		}
		return nil
	})
	runtime.KeepAlive(cacher)
}
