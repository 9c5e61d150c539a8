package kvtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

func hold(t *testing.T, b kv.Backend, at kv.Revision) (kv.Revision, func()) {
	t.Helper()
	held, release, err := b.Hold(t.Context(), at)
	if err != nil {
		t.Fatalf("hold %d: %v", at, err)
	}
	if at != 0 && held != at {
		t.Fatalf("hold %d: revision %d is held", at, held)
	}
	return held, release
}

func compact(t *testing.T, b kv.Backend, before kv.Revision) {
	t.Helper()
	if err := b.Compact(t.Context(), before); err != nil {
		t.Fatalf("compact to %d: %v", before, err)
	}
}

func compacted(t *testing.T, b kv.Backend) kv.Revision {
	t.Helper()
	rev, err := b.CompactedRevision(t.Context())
	if err != nil {
		t.Fatalf("compacted revision: %v", err)
	}
	return rev
}

// testHold checks that held revisions can be read and watched, and are compacted after their
// release.
func testHold(t *testing.T, b kv.Backend) {
	r1 := put(t, b, "a", "1")
	put(t, b, "gone", "x")
	r3 := put(t, b, "a", "3")
	r4 := remove(t, b, "gone")
	r5 := put(t, b, "a", "5")
	r6 := put(t, b, "a", "6")

	_, again := hold(t, b, r3)
	_, release := hold(t, b, r3)
	_, later := hold(t, b, r5)
	compact(t, b, r6)
	if rev := compacted(t, b); rev != r3 {
		t.Fatalf("compacted to %d, although revision %d is held", rev, r3)
	}
	diff(t, "at the revision held", keys(list(t, b, kv.RangeRequest{At: r3}).Entries), []string{"a", "gone"})
	diff(t, "value at the revision held", get(t, b, "a", r3), &kv.Entry{Key: "a", Value: []byte("3"), Created: r1, Modified: r3})
	if _, _, err := b.Get(t.Context(), "a", r1); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("get before the held revision: %v", err)
	}
	events := watch(t, b, "", "", r3).until(r6)
	if len(events) != 4 || events[0].Revision != r3 || events[0].Prev == nil || events[1].Revision != r4 {
		t.Errorf("events of a watch from the held revision: %+v", events)
	}

	again()
	again()
	compact(t, b, r6)
	diff(t, "while it is held once", get(t, b, "a", r3).Modified, r3)
	release()
	eventually(t, "compaction to the next revision held", func() bool { return compacted(t, b) == r5 })
	diff(t, "at the next revision held", get(t, b, "a", r5).Modified, r5)
	later()
	eventually(t, "compaction to the requested revision", func() bool { return compacted(t, b) == r6 })
	if _, _, err := b.Get(t.Context(), "a", r5); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("get after the hold: %v", err)
	}
}

func testHoldContext(t *testing.T, b kv.Backend) {
	r1 := put(t, b, "a", "1")
	r2 := put(t, b, "a", "2")
	ctx, cancel := context.WithCancel(t.Context())
	if _, _, err := b.Hold(ctx, r1); err != nil {
		t.Fatal(err)
	}
	compact(t, b, r2)
	if rev := compacted(t, b); rev > r1 {
		t.Fatalf("compacted to %d, although revision %d is held", rev, r1)
	}
	cancel()
	eventually(t, "compaction after the context's end", func() bool { return compacted(t, b) == r2 })
	if _, _, err := b.Hold(ctx, r2); !errors.Is(err, context.Canceled) {
		t.Errorf("hold with a context that has ended: %v", err)
	}
}

func testHoldErrors(t *testing.T, b kv.Backend) {
	r1 := put(t, b, "a", "1")
	r2 := put(t, b, "a", "2")
	compact(t, b, r2)
	for _, c := range []struct {
		at   kv.Revision
		want error
	}{{r1, kv.ErrCompacted}, {r2, nil}, {r2 + 1, kv.ErrFutureRevision}} {
		_, release, err := b.Hold(t.Context(), c.at)
		if !errors.Is(err, c.want) {
			t.Errorf("hold %d: %v, want %v", c.at, err, c.want)
		}
		if err == nil {
			release()
		}
	}
	if _, _, err := b.Hold(t.Context(), -1); err == nil {
		t.Error("a negative revision is held")
	}
	held, release := hold(t, b, 0)
	if held != r2 {
		t.Errorf("revision %d is held, the newest revision is %d", held, r2)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	release()
	if _, _, err := b.Hold(t.Context(), 0); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("hold after close: %v", err)
	}
}

// testHoldConcurrent reads held revisions repeatedly while all other revisions are compacted.
func testHoldConcurrent(t *testing.T, b kv.Backend) {
	put(t, b, "a", "0")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			rev := current(t, b)
			if err := b.Compact(t.Context(), rev); err != nil {
				t.Errorf("compact to %d: %v", rev, err)
				return
			}
		}
	})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 20 {
				readHeld(t, b)
			}
		})
	}
	for i := range 50 {
		put(t, b, "a", fmt.Sprint(i))
	}
	readers.Wait()
	cancel()
	wg.Wait()
}

func readHeld(t *testing.T, b kv.Backend) {
	held, release, err := b.Hold(t.Context(), 0)
	if err != nil {
		t.Errorf("hold: %v", err)
		return
	}
	defer release()
	var first *kv.Entry
	for i := range 5 {
		e, _, err := b.Get(t.Context(), "a", held)
		if err != nil || e == nil || first != nil && e.Modified != first.Modified {
			t.Errorf("read %d at held revision %d: %v, %v; the first read returned %v", i, held, e, err, first)
			return
		}
		first = e
	}
	w, err := b.Watch(t.Context(), "", "", held)
	if err != nil {
		t.Errorf("watch from held revision %d: %v", held, err)
		return
	}
	w.Stop()
}

// testRevisionAt checks that the returned revision is never newer than the requested time.
func testRevisionAt(t *testing.T, b kv.Backend) {
	begin := time.Now()
	r1 := put(t, b, "a", "1")
	between := time.Now()
	r2 := put(t, b, "a", "2")
	for _, c := range []struct {
		name     string
		t        time.Time
		from, to kv.Revision
	}{
		{"now", time.Now(), 0, r2},
		{"the future", time.Now().Add(time.Hour), r2, r2},
		{"before the second commit", between, 0, r1},
		{"before the first commit", begin, 0, r1 - 1},
	} {
		rev, err := b.RevisionAt(t.Context(), c.t)
		if errors.Is(err, kv.ErrCompacted) && c.from == 0 {
			continue
		}
		if err != nil || rev < max(c.from, 1) || rev > c.to {
			t.Errorf("%s: revision %d, %v; want %d to %d", c.name, rev, err, c.from, c.to)
		}
	}
	for _, past := range []time.Time{{}, begin.Add(-24 * time.Hour)} {
		if rev, err := b.RevisionAt(t.Context(), past); !errors.Is(err, kv.ErrCompacted) {
			t.Errorf("at %s: revision %d, %v", past, rev, err)
		}
	}
	compact(t, b, r2)
	if rev, err := b.RevisionAt(t.Context(), between); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("at a compacted time: revision %d, %v", rev, err)
	}
	if rev, err := b.RevisionAt(t.Context(), time.Now().Add(time.Hour)); err != nil || rev != r2 {
		t.Errorf("newest revision after compaction: %d, %v; want %d", rev, err, r2)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.RevisionAt(t.Context(), between); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}
