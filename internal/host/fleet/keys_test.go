package fleet

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestDeletePrefix checks that several pages of keys are deleted, including a key that is written during the
// deletion.
func TestDeletePrefix(t *testing.T) {
	t.Parallel()
	for _, concurrent := range []int{1, deletionCommits} {
		backend := storagetest.InMemory(t)
		f := &Fleet{config: Config{Env: &controlplane.Env{Storage: controlplane.Storage{Backend: backend}}}}
		put := func(key string) error {
			_, err := backend.Commit(t.Context(), kv.Op{Key: key, Value: []byte("x"), Expect: kv.AnyRevision})
			return err
		}
		for i := range 3*deletionOps + 1 {
			if err := put(fmt.Sprintf("/planes/a/%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := put("/planes/b/1"); err != nil {
			t.Fatal(err)
		}
		var commits atomic.Int32
		err := f.deletePrefix(t.Context(), "/planes/a/", concurrent, func(ctx context.Context, ops ...kv.Op) error {
			if commits.Add(1) == 1 {
				if err := put("/planes/a/!"); err != nil { // sorts before all pages
					return err
				}
			}
			_, err := backend.Commit(ctx, ops...)
			return err
		})
		rest, listErr := backend.Range(t.Context(), kv.RangeRequest{Start: "/planes/", End: kv.PrefixEnd("/planes/")})
		if err != nil || listErr != nil || len(rest.Entries) != 1 || rest.Entries[0].Key != "/planes/b/1" {
			t.Errorf("%d concurrent commits: %v %v, remaining keys %v", concurrent, err, listErr, rest.Entries)
		}
		if n := commits.Load(); n != 5 {
			t.Errorf("%d concurrent commits: %d commits, 5 are expected", concurrent, n)
		}
	}
}
