package etcd

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/internal/storage/kv/history"
)

// TestHeldCompaction checks that the compaction rounds of a client do not go beyond its holds, and
// that the stored revision never decreases. Another client may compact beyond the holds.
func TestHeldCompaction(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	one, two := open(t, Config{Endpoints: c.URLs()}), open(t, Config{Endpoints: c.URLs()})
	round := func(s *Store, before compactor) compactor {
		t.Helper()
		after, err := s.compactOnce(t.Context(), before)
		if err != nil {
			t.Fatal(err)
		}
		return after
	}
	agreed := func(want kv.Revision) {
		t.Helper()
		if got, err := one.CompactedRevision(t.Context()); err != nil || got != want {
			t.Errorf("compacted to %d, %v; want %d", got, err, want)
		}
	}
	r1 := mustPut(t, one, "/a", "1")
	mustPut(t, one, "/a", "2")
	held, release, err := one.Hold(t.Context(), r1)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	c1 := round(one, round(one, compactor{}))
	agreed(held - 1)
	if e, _, err := one.Get(t.Context(), "/a", held); err != nil || string(e.Value) != "1" {
		t.Fatalf("read at a held revision: %v, %v", e, err)
	}
	// The second round of another client compacts to the revision of its first round.
	c2 := round(two, compactor{})
	round(two, c2)
	agreed(c2.revision)
	if _, _, err := one.Get(t.Context(), "/a", held); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("read at a revision that another client has compacted: %v", err)
	}
	round(one, round(one, c1))
	agreed(c2.revision)
}

// TestMarks checks that marks are a minute apart regardless of the number of calls, and that times before the
// start of the process are unknown.
func TestMarks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Store{holds: history.NewHolds()}
		began := time.Now()
		for i := range 600 { // ten minutes
			s.recordTime(kv.Revision(i + 1))
			time.Sleep(time.Second)
		}
		if n := s.marks.Len(); n != 10 {
			t.Errorf("%d marks after ten minutes", n)
		}
		if rev, ok := s.marks.AtTime(began.Add(90*time.Second), time.Now()); !ok || rev != 61 {
			t.Errorf("revision %d, %t at 90 seconds; want the revision of the mark at 60 seconds", rev, ok)
		}
		if rev, ok := s.marks.AtTime(began.Add(-time.Second), time.Now()); ok {
			t.Errorf("revision %d before the start", rev)
		}
	})
}
