package embedded

import (
	"testing"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// TestOrigin checks that watches receive the origin of commits, from memory, from disk and after a restart,
// and that compaction deletes the origin.
func TestOrigin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir, Retention: -1})
	first := commit(t, s, kv.Op{Key: "/a", Value: []byte("1")}, kv.Op{Key: "/b", Origin: []byte("alice")}, kv.Op{Key: "/c", Origin: []byte("ignored")})
	commit(t, s, kv.Op{Key: "/a", Kind: kv.OpDelete, Expect: kv.AnyRevision, Origin: []byte("bob")})
	last := commit(t, s, kv.Op{Key: "/d"})
	want := []string{"alice", "alice", "alice", "bob", ""}
	check := func(from kv.Revision, want []string) {
		t.Helper()
		w, err := s.Watch(t.Context(), "/", "", from)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		var got []string
		for batch := range w.Batches() {
			for _, ev := range batch.Events {
				got = append(got, string(ev.Origin))
			}
			if batch.Revision >= last {
				break
			}
		}
		if len(got) != len(want) {
			t.Fatalf("origins %q, want %q", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("origins %q, want %q", got, want)
			}
		}
	}
	check(first, want)
	s.ring.forget(last)
	check(first, want)
	closeStore(t, s)
	s = open(t, Config{Dir: dir, Retention: -1})
	check(first, want)
	if err := s.Compact(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	check(last, want[4:])
	e, err := s.acquireEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer s.release()
	if _, _, err := e.db.Get(originKey(first)); err == nil {
		t.Error("the origin of a compacted commit exists")
	}
}

func commit(t *testing.T, s *Store, ops ...kv.Op) kv.Revision {
	t.Helper()
	res, err := s.Commit(t.Context(), ops...)
	if err != nil || !res.Committed {
		t.Fatalf("commit: %+v, %v", res, err)
	}
	return res.Revision
}
