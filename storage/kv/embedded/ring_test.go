package embedded

import (
	"fmt"
	"testing"

	"mainstay.dev/mainstay/storage/kv"
)

// TestRingNotes: the newest events have notes, older ones have lost theirs, and
// all that the ring has is there whatever was dropped.
func TestRingNotes(t *testing.T) {
	t.Parallel()
	var r ring
	r.init()
	value := make([]byte, 40<<10)
	var handed []kv.Event
	for rev := kv.Revision(1); rev <= 500; rev++ {
		g := &group{first: rev, last: rev, events: []kv.Event{{Key: fmt.Sprintf("key-%04d", rev), Revision: rev, Value: value, Note: rev}}}
		handed = append(handed, g.events...)
		r.append(g)
		size := eventBytes + len("key-0000") + len(value)
		oldest := max(1, rev+1-kv.Revision(ringBytes/size))
		groups, last, _, ok := r.since(oldest, make([]ringGroup, 0, 200))
		if !ok || last != rev || groups[0].last != oldest || groups[len(groups)-1].last != rev {
			t.Fatalf("at %d: groups %v since %d, %t", rev, groups, oldest, ok)
		}
		if _, _, _, ok := r.since(oldest-1, nil); ok && oldest > 1 {
			t.Fatalf("at %d: the ring goes back to %d", rev, oldest-1)
		}
		for _, g := range groups {
			noted := g.last > rev-kv.Revision(notedBytes/size)
			if has := g.events[0].Note == g.last; has != noted {
				t.Fatalf("at %d: revision %d has note %v", rev, g.last, g.events[0].Note)
			}
		}
	}
	for i, ev := range handed {
		if ev.Note != kv.Revision(i+1) {
			t.Errorf("revision %d was handed out and has lost its note", i+1)
		}
	}
}

// TestReleaseMemory: what is kept in memory of the past goes, and all still works.
func TestReleaseMemory(t *testing.T) {
	t.Parallel()
	s := open(t, Config{InMemory: true, Retention: -1})
	for i := range 100 {
		put(t, s, fmt.Sprint("k", i%10), fmt.Sprint(i))
	}
	w, err := s.Watch(t.Context(), "", "", 50)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	last := kv.Revision(s.published.Load())
	for range 3 {
		last = s.releaseMemory(last)
	}
	s.mu.Lock()
	held := len(s.mu.recent.young) + len(s.mu.recent.old)
	s.mu.Unlock()
	if held > 0 || s.ring.mu.count > 0 {
		t.Errorf("%d versions and %d groups are held", held, s.ring.mu.count)
	}
	res, err := s.Commit(t.Context(), kv.Op{Key: "k0", Value: []byte("x"), Expect: 1})
	if err != nil || res.Committed || string(res.Current[0].Value) != "90" {
		t.Fatalf("a commit that expects another revision: %+v, %v", res, err)
	}
	at := put(t, s, "k0", "new")
	events := 0
	for batch := range w.Batches() {
		events += len(batch.Events)
		if batch.Revision >= at {
			break
		}
	}
	if want := int(at) - 50 + 1; events != want {
		t.Errorf("the watch has %d events, want %d", events, want)
	}
}
