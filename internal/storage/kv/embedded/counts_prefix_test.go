package embedded

import (
	"fmt"
	"sync"
	"testing"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// TestPrefixRevision checks that PrefixRevision is at least the revision of each acknowledged write
// under the prefix, and that writes under other prefixes do not increase it.
func TestPrefixRevision(t *testing.T) {
	t.Parallel()
	s := open(t, Config{InMemory: true})
	of := func(prefix string) kv.Revision {
		t.Helper()
		revision, ok, err := s.PrefixRevision(t.Context(), prefix)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		return revision
	}
	put(t, s, "/r/pods/ns/a", "1")
	if got, newest := of("/r/classes/"), kv.Revision(s.published.Load()); got != newest {
		t.Errorf("first request for a prefix: %d, want the newest revision %d", got, newest)
	}
	before := of("/r/classes/")
	put(t, s, "/r/pods/ns/a", "2")
	if got := of("/r/classes/"); got != before {
		t.Errorf("after the write of a pod: %d, want %d", got, before)
	}
	written := put(t, s, "/r/classes/c", "1")
	if got := of("/r/classes/"); got != written {
		t.Errorf("after the write of a class: %d, want %d", got, written)
	}
	res, err := s.Commit(t.Context(), kv.Op{Key: "/r/classes/c", Kind: kv.OpDelete, Expect: kv.AnyRevision})
	if err != nil || of("/r/classes/") != res.Revision {
		t.Errorf("after the deletion of the class: %d, want %d (%v)", of("/r/classes/"), res.Revision, err)
	}
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			prefix := fmt.Sprintf("/r/kind%d/", w%4)
			for n := range 100 {
				res, err := s.Commit(t.Context(), kv.Op{Key: fmt.Sprint(prefix, w, "-", n%10), Value: []byte("x"), Expect: kv.AnyRevision})
				if err != nil {
					t.Error(err)
					return
				}
				if got, _, err := s.PrefixRevision(t.Context(), prefix); err != nil || got < res.Revision {
					t.Errorf("%s is at %d after %d was acknowledged (%v)", prefix, got, res.Revision, err)
				}
			}
		})
	}
	writers.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.PrefixRevision(t.Context(), "/r/classes/"); err == nil {
		t.Error("a closed store has a revision")
	}
}
