package storage_test

import (
	"fmt"
	"math"
	"testing"

	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestLargeLimits checks lists with limits up to the largest int64.
func TestLargeLimits(t *testing.T) {
	t.Parallel()
	store := storagetest.Pods(t, storagetest.InMemory(t))
	const pods = 3
	for i := range pods {
		if _, err := store.Create(t.Context(), storagetest.Pod("a", fmt.Sprint("p", i)), storage.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, limit := range []int64{pods, math.MaxInt32, math.MaxInt64 - 1, math.MaxInt64} {
		list, err := store.List(t.Context(), "a", rest.ListOptions{Limit: limit})
		if err != nil {
			t.Errorf("limit %d: %v", limit, err)
			continue
		}
		n := 0
		for _, err := range list.Items {
			if err != nil {
				t.Errorf("limit %d: %v", limit, err)
			}
			n++
		}
		if n != pods || list.Continue != "" {
			t.Errorf("limit %d: %d objects, continue %q", limit, n, list.Continue)
		}
	}
}
