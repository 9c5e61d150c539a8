package embedded

import (
	"fmt"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// TestRingNotes checks that only the newest events have notes, and that the ring returns all its
// groups after older groups were dropped.
func TestRingNotes(t *testing.T) {
	t.Parallel()
	var r ring
	value := make([]byte, 40<<10)
	var handed []kv.Event
	for rev := kv.Revision(1); rev <= 500; rev++ {
		g := &group{first: rev, last: rev, events: []kv.Event{{Key: fmt.Sprintf("key-%04d", rev), Revision: rev, Value: value, Note: rev}}}
		handed = append(handed, g.events...)
		r.append(g)
		size := eventBytes + len("key-0000") + len(value)
		oldest := max(1, rev+1-kv.Revision(ringBytes/size))
		groups, at, ok := r.since(oldest, make([]ringGroup, 0, 200))
		if !ok || at.last != rev || groups[0].last != oldest || groups[len(groups)-1].last != rev {
			t.Fatalf("at %d: groups %v since %d, %t", rev, groups, oldest, ok)
		}
		if _, _, ok := r.since(oldest-1, nil); ok && oldest > 1 {
			t.Fatalf("at %d: the oldest revision in the ring is %d", rev, oldest-1)
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
			t.Errorf("revision %d has lost its note after it was returned", i+1)
		}
	}
}

// TestRingWakes checks that an event wakes the waiters whose range contains it and advances the other
// waiters, and that a request for progress wakes all waiters.
func TestRingWakes(t *testing.T) {
	t.Parallel()
	var r ring
	awake := func(s *waiter) bool {
		select {
		case <-s.wake:
			return true
		default:
			return false
		}
	}
	waiterOf := func(start string, every bool) *waiter {
		return &waiter{start: start, end: kv.PrefixEnd(start), anyEvent: every, wake: make(chan struct{}, 1)}
	}
	pods, roles, rereading := waiterOf("/pods/", false), waiterOf("/roles/", false), waiterOf("/roles/", true)
	for _, s := range []*waiter{pods, roles, rereading} {
		if !r.addWaiter(s, 0) {
			t.Fatal("addWaiter rejected a watch, although the ring has not changed")
		}
	}
	publish := func(rev kv.Revision, key string) {
		r.append(&group{first: rev, last: rev, events: []kv.Event{{Key: key, Revision: rev}}})
	}
	publish(1, "/pods/a")
	if !awake(pods) || awake(roles) || !awake(rereading) || roles.idleUntil != 1 || pods.idleUntil != 0 {
		t.Errorf("after a pod: pods at %d, roles at %d", pods.idleUntil, roles.idleUntil)
	}
	if r.addWaiter(pods, 0) {
		t.Error("addWaiter accepted a watch that has not processed the event")
	}
	publish(2, "/roles/a")
	if awake(pods) || !awake(roles) || roles.idleUntil != 1 {
		t.Errorf("after a role: roles at %d", roles.idleUntil)
	}
	_, at, _ := r.since(3, nil)
	r.addWaiter(pods, at.version)
	r.removeWaiter(pods)
	r.addWaiter(roles, at.version)
	r.requestProgress(2)
	if awake(pods) || !awake(roles) || roles.idleUntil != 2 || len(r.mu.waiters) != 0 {
		t.Errorf("after a request for progress: roles at %d, %d waiters", roles.idleUntil, len(r.mu.waiters))
	}
	if _, at, _ = r.since(3, nil); at.requested != 2 {
		t.Errorf("progress is requested up to %d", at.requested)
	}
}

// TestReleaseMemory checks that releaseMemory drops all cached commits, and that commits and
// watches work afterwards.
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
		t.Errorf("%d versions and %d groups are cached", held, s.ring.mu.count)
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

// TestProgressBeforeRing checks that a request for progress reports the newest revision to a watch without
// events, if the request arrives after the revision was published and before it is in the ring.
func TestProgressBeforeRing(t *testing.T) {
	t.Parallel()
	s := open(t, Config{InMemory: true})
	before := put(t, s, "/pods/a", "1")
	w, err := s.Watch(t.Context(), "/roles/", kv.PrefixEnd("/roles/"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	receive := func(want kv.Revision) {
		t.Helper()
		select {
		case batch := <-w.Batches():
			if batch.Revision != want || len(batch.Events) > 0 {
				t.Fatalf("received %+v, want the progress %d", batch, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("the watch does not report the progress %d", want)
		}
	}
	receive(before) // the first progress
	// Perform the steps of publish, with a request for progress between them.
	g := &group{first: before + 1, last: before + 1, events: []kv.Event{{Key: "/pods/a", Revision: before + 1}}}
	s.counts.publish(g.events, g.last)
	newest, err := s.CurrentRevision(t.Context())
	if err != nil || newest != g.last {
		t.Fatalf("the newest revision is %d, want %d (%v)", newest, g.last, err)
	}
	if err := s.RequestProgress(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.ring.append(g)
	receive(newest)
}

// TestCheckedKeyStaysInMemory checks that a key is read from disk only for the first of many transactions that
// check it.
func TestCheckedKeyStaysInMemory(t *testing.T) {
	t.Parallel()
	s := open(t, Config{InMemory: true})
	at := put(t, s, "namespace", "a")
	for last := at; ; {
		s.mu.Lock()
		_, held := s.mu.recent.get("namespace")
		s.mu.Unlock()
		if !held {
			break
		}
		last = s.releaseMemory(last)
	}
	create := func(key string) bool {
		res, err := s.Commit(t.Context(), kv.Op{Key: key, Value: []byte("x")}, kv.Op{Key: "namespace", Kind: kv.OpCheck, Expect: at})
		if err != nil {
			t.Fatal(err)
		}
		return res.Committed
	}
	if !create("first") {
		t.Error("not committed")
	}
	s.mu.Lock()
	v, held := s.mu.recent.get("namespace")
	s.mu.Unlock()
	if !held || v.entry == nil || v.entry.Modified != at {
		t.Errorf("the checked version is not in memory: %t %+v", held, v)
	}
	if !create("second") {
		t.Error("not committed")
	}
	put(t, s, "namespace", "b")
	if create("third") {
		t.Error("committed after a change of the namespace")
	}
}
