package cache

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestUpdatesOfOneWriter checks that consecutive updates need one attempt each, even if the cache
// lags, and that a dry run does not affect this.
func TestUpdatesOfOneWriter(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	feed, err := NewFeed(FeedConfig{Backend: backend, Prefix: "/registry"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { feed.Run(ctx) })
	defer group.Wait()
	defer cancel()
	for !feed.Running() {
		runtime.Gosched()
	}
	store := storagetest.Pods(t, backend)
	c, err := New(Config{Store: store, Feed: feed})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	if _, err := c.Create(ctx, pod, storage.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.List(ctx, "", rest.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	const updates = 500
	tries := 0
	label := func(value string, options storage.UpdateOptions) {
		t.Helper()
		_, err := c.Update(ctx, types.NamespacedName{Namespace: "ns", Name: "p"}, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
			tries++
			obj, err := current.Object()
			if err != nil {
				return nil, storage.WriteOptions{}, err
			}
			obj.SetLabels(map[string]string{"n": value, "before": obj.GetLabels()["n"]})
			return obj, storage.WriteOptions{}, nil
		}, options)
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range updates {
		if i%10 == 9 {
			label("dry", storage.UpdateOptions{DryRun: true})
		}
		tries = 0
		label(strconv.Itoa(i), storage.UpdateOptions{})
		if tries != 1 {
			t.Fatalf("update %d took %d attempts", i, tries)
		}
	}
	record, err := c.Get(ctx, types.NamespacedName{Namespace: "ns", Name: "p"}, storage.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	obj, err := record.Shared()
	if err != nil {
		t.Fatal(err)
	}
	if labels := obj.GetLabels(); labels["n"] != strconv.Itoa(updates-1) || labels["before"] != strconv.Itoa(updates-2) {
		t.Errorf("labels: %v", labels)
	}
	remembered := func() int {
		st := c.loaded.Load()
		st.mu.RLock()
		defer st.mu.RUnlock()
		return len(st.mu.recentWrites)
	}
	if n := remembered(); n != 0 {
		t.Errorf("%d recent writes are retained although the cache is up to date", n)
	}
}
