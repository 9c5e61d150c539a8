package kvtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"mainstay.dev/mainstay/internal/storage/kv"
)

func testWatchOrder(t *testing.T, b kv.Backend) {
	w := watch(t, b, "", "", 0)
	var want []kv.Revision
	for i := range 200 {
		want = append(want, put(t, b, fmt.Sprintf("k%d", i%7), fmt.Sprint(i)))
	}
	var got []kv.Revision
	for _, ev := range w.until(want[len(want)-1]) {
		got = append(got, ev.Revision)
	}
	diff(t, "revisions", got, want)
}

func testWatchEvents(t *testing.T, b kv.Backend) {
	from := current(t, b) + 1
	live := watch(t, b, "", "", from)
	type note struct{ text string }
	r1 := commit(t, b, kv.Op{Key: "a", Value: []byte("1"), Note: &note{"hello"}})
	r2 := put(t, b, "a", "2")
	r3 := remove(t, b, "a")
	r4 := put(t, b, "a", "4")
	e := func(value string, created, modified kv.Revision) *kv.Entry {
		return &kv.Entry{Key: "a", Value: []byte(value), Created: created, Modified: modified}
	}
	want := []kv.Event{
		{Key: "a", Revision: r1, Value: []byte("1"), Created: r1},
		{Key: "a", Revision: r2, Value: []byte("2"), Created: r1, Prev: e("1", r1, r1)},
		{Key: "a", Revision: r3, Deleted: true, Prev: e("2", r1, r2)},
		{Key: "a", Revision: r4, Value: []byte("4"), Created: r4},
	}
	events := live.until(r4)
	if n, ok := events[0].Note.(*note); events[0].Note != nil && (!ok || n.text != "hello") {
		t.Errorf("note: %v", events[0].Note)
	}
	diff(t, "live", plain(events), want)
	diff(t, "from history", plain(watch(t, b, "", "", from).until(r4)), want)
	diff(t, "from the middle", plain(watch(t, b, "", "", r3).until(r4)), want[2:])
}

func testWatchRange(t *testing.T, b kv.Backend) {
	from := current(t, b) + 1
	type span struct{ start, end string }
	spans := []span{{"", ""}, {"/a/", kv.PrefixEnd("/a/")}, {"/a/2", "/a/2\x00"}, {"/b", ""}, {"", "/a/2"}}
	var live []*watching
	for _, s := range spans {
		live = append(live, watch(t, b, s.start, s.end, 0))
	}
	var last kv.Revision
	all := []string{"/a/1", "/b/1", "/a/2", "/a", "/a0", "/c", "/a/3"}
	for _, key := range all {
		last = put(t, b, key, "x")
	}
	last = max(last, commit(t, b,
		kv.Op{Key: "/b/1", Kind: kv.OpDelete, Expect: kv.AnyRevision},
		kv.Op{Key: "/a/2", Kind: kv.OpDelete, Expect: kv.AnyRevision},
	))
	changes := append(all, "/b/1", "/a/2")
	if err := b.RequestProgress(t.Context()); err != nil {
		t.Fatalf("request progress: %v", err)
	}
	for i, s := range spans {
		var want []string
		for _, key := range changes {
			if key >= s.start && (s.end == "" || key < s.end) {
				want = append(want, key)
			}
		}
		history := watch(t, b, s.start, s.end, from)
		if err := b.RequestProgress(t.Context()); err != nil {
			t.Fatalf("request progress: %v", err)
		}
		for how, w := range map[string]*watching{"live": live[i], "history": history} {
			var got []string
			for _, ev := range w.until(last) {
				got = append(got, ev.Key)
			}
			diff(t, fmt.Sprintf("%s [%q, %q)", how, s.start, s.end), got, want)
		}
	}
}

func testWatchAtomic(t *testing.T, b kv.Backend) {
	from := current(t, b) + 1
	live := watch(t, b, "", "", from)
	var last kv.Revision
	const commits, ops = 20, 40
	for i := range commits {
		var txn []kv.Op
		for j := range ops {
			txn = append(txn, kv.Op{Key: fmt.Sprintf("%02d", j), Value: []byte(fmt.Sprint(i)), Expect: kv.AnyRevision})
		}
		last = commit(t, b, txn...)
	}
	for _, w := range []*watching{live, watch(t, b, "", "", from)} {
		count := map[kv.Revision]int{}
		for w.delivered < last {
			batch, ok := w.batch()
			if !ok {
				t.Fatalf("the watch ended: %v", w.w.Err())
			}
			for _, ev := range batch.Events {
				count[ev.Revision]++
			}
			for r, n := range count {
				if n != ops {
					t.Fatalf("%d of %d events of revision %d in a batch", n, ops, r)
				}
			}
		}
		if len(count) != commits {
			t.Fatalf("%d revisions, want %d", len(count), commits)
		}
	}
}

func testWatchProgress(t *testing.T, b kv.Backend) {
	quiet := watch(t, b, "/quiet/", kv.PrefixEnd("/quiet/"), 0)
	for i := range 50 {
		last := put(t, b, "/noise", fmt.Sprint(i))
		if i%10 == 9 {
			if err := b.RequestProgress(t.Context()); err != nil {
				t.Fatalf("request progress: %v", err)
			}
			if events := quiet.until(last); len(events) != 0 {
				t.Fatalf("events in a range without changes: %v", events)
			}
		}
	}
	// A new watch also reports progress.
	late := watch(t, b, "/quiet/", kv.PrefixEnd("/quiet/"), 0)
	now := current(t, b)
	if err := b.RequestProgress(t.Context()); err != nil {
		t.Fatalf("request progress: %v", err)
	}
	late.until(now)
}

// testWatchFromFirst watches from the newest revision of a new store, which need not be the revision of a
// commit.
func testWatchFromFirst(t *testing.T, b kv.Backend) {
	at := current(t, b)
	w := watch(t, b, "", "", at)
	if err := b.RequestProgress(t.Context()); err != nil {
		t.Fatalf("request progress: %v", err)
	}
	w.until(at)
	last := put(t, b, "a", "1")
	events := w.until(last)
	if n := len(events); n == 0 || events[n-1].Revision != last {
		t.Fatalf("events: %v", events)
	}
}

func testWatchFromOld(t *testing.T, b kv.Backend) {
	var revs []kv.Revision
	value := strings.Repeat("v", 1000)
	for i := range 300 {
		if i%10 == 9 {
			revs = append(revs, remove(t, b, fmt.Sprintf("k%02d", i%40-1)))
			if i > 0 && revs[i] == revs[i-1] {
				t.Fatalf("nothing was deleted at %d", i)
			}
			continue
		}
		revs = append(revs, put(t, b, fmt.Sprintf("k%02d", i%40), value))
	}
	last := revs[len(revs)-1]
	whole := plain(watch(t, b, "", "", revs[0]).until(last))
	if len(whole) != len(revs) {
		t.Fatalf("%d events for %d commits", len(whole), len(revs))
	}
	for _, i := range []int{1, 50, 299} {
		diff(t, fmt.Sprintf("from commit %d", i), plain(watch(t, b, "", "", revs[i]).until(last)), whole[i:])
	}
	// The watch continues from history to new events without a gap.
	w := watch(t, b, "", "", revs[250])
	more := put(t, b, "new", "x")
	if events := w.until(more); len(events) != 51 {
		t.Fatalf("%d events, want 51", len(events))
	}
}

func testWatchFromFuture(t *testing.T, b kv.Backend) {
	r1 := put(t, b, "a", "1")
	w := watch(t, b, "", "", r1+3)
	for i := range 3 {
		put(t, b, "a", fmt.Sprint(i))
	}
	last := put(t, b, "a", "last")
	for _, ev := range w.until(last) {
		if ev.Revision < r1+3 {
			t.Errorf("event of revision %d in a watch from %d", ev.Revision, r1+3)
		}
	}
	if n := len(w.events); n == 0 || w.events[n-1].Revision != last {
		t.Errorf("events: %v", w.events)
	}
}

func testWatchCompacted(t *testing.T, b kv.Backend) {
	r1 := put(t, b, "a", "1")
	r2 := put(t, b, "a", "2")
	r3 := put(t, b, "a", "3")
	r4 := remove(t, b, "a")
	if err := b.Compact(t.Context(), r3); err != nil {
		t.Fatalf("compact: %v", err)
	}
	for _, from := range []kv.Revision{r1, r2} {
		w, err := b.Watch(t.Context(), "", "", from)
		if err == nil {
			err = (&watching{t: t, w: w}).ended()
		}
		if !errors.Is(err, kv.ErrCompacted) {
			t.Errorf("watch from %d, compacted at %d: %v", from, r3, err)
		}
	}
	events := watch(t, b, "", "", r3).until(r4)
	if len(events) != 2 || events[0].Revision != r3 || string(events[0].Value) != "3" || !events[1].Deleted {
		t.Errorf("watch from the compacted revision: %+v", events)
	}
}

func testWatchSlow(t *testing.T, b kv.Backend) {
	from := current(t, b) + 1
	slow := watch(t, b, "", "", from)
	fast := watch(t, b, "", "", from)
	value := strings.Repeat("v", 64<<10)
	var last kv.Revision
	const n = 400 // 25 MiB
	for i := range n {
		last = put(t, b, fmt.Sprintf("k%d", i%5), value)
		if i%50 == 0 {
			fast.until(last)
		}
	}
	diff(t, "number of events", len(fast.until(last)), n)
	events := slow.until(last)
	diff(t, "number of events", len(events), n)
	for i, ev := range events {
		if i >= 5 && (ev.Prev == nil || ev.Prev.Modified != events[i-5].Revision) {
			t.Fatalf("event %d has previous entry %v, want the entry of revision %d", i, ev.Prev, events[i-5].Revision)
		}
	}
}

func testWatchMany(t *testing.T, b kv.Backend) {
	const watchers, commits = 100, 100
	var wg sync.WaitGroup
	ws := make([]*watching, watchers)
	for i := range ws {
		prefix := ""
		if i%2 == 1 {
			prefix = fmt.Sprintf("k%d", i%10)
		}
		ws[i] = watch(t, b, prefix, kv.PrefixEnd(prefix), 0)
	}
	done := make(chan kv.Revision)
	wg.Go(func() {
		var last kv.Revision
		for i := range commits {
			res, err := b.Commit(t.Context(), kv.Op{Key: fmt.Sprintf("k%d/%d", i%10, i)})
			if err != nil {
				t.Errorf("commit: %v", err)
			}
			last = res.Revision
		}
		for range watchers {
			done <- last
		}
	})
	last := <-done
	for i, w := range ws {
		want := commits
		if i%2 == 1 {
			want = commits / 10
		}
		if err := b.RequestProgress(t.Context()); err != nil {
			t.Fatalf("request progress: %v", err)
		}
		if n := len(w.until(last)); n != want {
			t.Errorf("watch %d has %d events, want %d", i, n, want)
		}
		if i > 0 {
			<-done
		}
	}
	wg.Wait()
}

func testWatchStop(t *testing.T, b kv.Backend) {
	stopped, kept := watch(t, b, "", "", 0), watch(t, b, "", "", 0)
	r1 := put(t, b, "a", "1")
	stopped.until(r1)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(stopped.w.Stop)
	}
	wg.Wait()
	if err := stopped.ended(); err != nil {
		t.Errorf("a stopped watch has error %v", err)
	}
	stopped.w.Stop()
	// A watch without a receiver also ends.
	ignored := watch(t, b, "", "", 0)
	r2 := put(t, b, "a", "2")
	ignored.w.Stop()
	if err := ignored.ended(); err != nil {
		t.Errorf("a stopped watch has error %v", err)
	}
	if n := len(kept.until(r2)); n != 2 {
		t.Errorf("the other watch has %d events", n)
	}
}

func testWatchContext(t *testing.T, b kv.Backend) {
	ctx, cancel := context.WithCancel(t.Context())
	w, err := b.Watch(ctx, "", "", 0)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer w.Stop()
	put(t, b, "a", "1")
	cancel()
	if err := (&watching{t: t, w: w}).ended(); err != nil {
		t.Errorf("a watch with a canceled context has error %v", err)
	}
}

func testWatchSeesWhatReadsSee(t *testing.T, b kv.Backend) {
	w := watch(t, b, "", "", 0)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				if _, err := b.Commit(t.Context(), kv.Op{Key: fmt.Sprintf("%d/%d", i, j)}); err != nil {
					t.Errorf("commit: %v", err)
				}
			}
		})
	}
	for len(w.events) < 200 {
		batch, ok := w.batch()
		if !ok {
			t.Fatalf("the watch ended: %v", w.w.Err())
		}
		if now := current(t, b); now < batch.Revision {
			t.Fatalf("the watch is at revision %d, a read at %d", batch.Revision, now)
		}
		for _, ev := range batch.Events {
			if e := get(t, b, ev.Key, 0); e == nil || e.Modified != ev.Revision {
				t.Fatalf("after the event of revision %d, a read returned %v", ev.Revision, e)
			}
		}
	}
	wg.Wait()
}
