package cache

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestEncodingsOfDroppedRecords checks that encodings are counted only while the cache contains their
// records: the encodings of deleted objects are not counted after the log has dropped the changes, and
// no encoding is counted after the cache was closed.
func TestEncodingsOfDroppedRecords(t *testing.T) {
	t.Parallel()
	memory, err := codec.NewEncodingCache(codec.EncodingCacheConfig{Limit: codec.NoEncodingCacheLimit})
	if err != nil {
		t.Fatal(err)
	}
	kind := storagetest.PodKind()
	kind.EncodingCache = memory
	backend := storagetest.InMemory(t)
	store, err := storage.New(storage.Config{Backend: backend, ResourcePrefix: "pods", Kind: kind, Namespaced: true})
	if err != nil {
		t.Fatal(err)
	}
	feed, err := NewFeed(FeedConfig{Backend: backend, Prefix: "/registry", Log: LogLimits{Changes: 4}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	var group sync.WaitGroup
	group.Go(func() { feed.Run(ctx) })
	defer group.Wait()
	defer cancel()
	for !feed.Running() {
		runtime.Gosched()
	}
	c, err := New(Config{Store: store, Feed: feed})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.List(ctx, "", rest.ListOptions{}); err != nil { // loads the cache
		t.Fatal(err)
	}
	create := func(name string) {
		if _, err := c.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}, storage.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// encode lists the pods as JSON and returns the size of all counted encodings.
	encode := func() int64 {
		list, err := c.List(ctx, "", rest.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for record, err := range list.Items {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := record.JSONTail(kind.Hub); err != nil {
				t.Fatal(err)
			}
		}
		return memory.Bytes()
	}
	create("kept")
	one := encode()
	if one == 0 {
		t.Fatal("no encoding is counted")
	}
	const n = 20
	for i := range n {
		create(fmt.Sprintf("dropped-%02d", i))
	}
	if all := encode(); all < n*one {
		t.Errorf("%d bytes are counted for %d encodings of at least %d bytes", all, n+1, one)
	}
	for i := range n {
		name := types.NamespacedName{Namespace: "a", Name: fmt.Sprintf("dropped-%02d", i)}
		if _, err := c.Delete(ctx, name, func(codec.Object) error { return nil }, storage.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if left := encode(); left > 8*one {
		t.Errorf("%d bytes are counted after the deletion; one encoding has %d bytes", left, one)
	}
	c.loaded.Load().close()
	for memory.Bytes() > 0 {
		if ctx.Err() != nil {
			t.Fatalf("%d bytes are counted after the cache was closed", memory.Bytes())
		}
		runtime.Gosched()
	}
}
