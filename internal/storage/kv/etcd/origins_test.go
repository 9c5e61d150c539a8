package etcd

import (
	"fmt"
	"testing"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
)

// TestOrigins checks that watches of a store receive the origins of the store's own commits, and no origins for the
// commits of another store.
func TestOrigins(t *testing.T) {
	t.Parallel()
	config := Config{Endpoints: etcdtest.Start(t, etcdtest.Options{}).URLs()}
	own, other := open(t, config), open(t, config)
	watch, err := own.Watch(t.Context(), "/a", "/b", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	var newest kv.Revision // of /a
	commit := func(s *Store, op kv.Op, committed bool) {
		t.Helper()
		op.Key, op.Origin = "/a", []byte("origin")
		res, err := s.Commit(t.Context(), op, kv.Op{Key: "/a2", Value: []byte(op.Value), Expect: kv.AnyRevision})
		if err != nil || res.Committed != committed {
			t.Fatalf("commit %+v: %+v, %v", op, res, err)
		}
		if committed {
			newest = res.Revision
		}
	}
	commit(own, kv.Op{Value: []byte("1")}, true)
	commit(other, kv.Op{Value: []byte("2"), Expect: newest}, true)
	commit(own, kv.Op{Value: []byte("3"), Expect: newest}, true)
	commit(own, kv.Op{Kind: kv.OpDelete, Expect: newest}, true)
	commit(other, kv.Op{Value: []byte("4")}, true)
	commit(own, kv.Op{Kind: kv.OpDelete}, false) // the key exists
	commit(other, kv.Op{Kind: kv.OpDelete, Expect: newest}, true)
	want := []string{"1 origin", "2 ", "3 origin", " origin", "4 ", " "}
	var got []string
	for len(got) < len(want) {
		batch, ok := <-watch.Batches()
		if !ok {
			t.Fatal(watch.Err())
		}
		for i := range batch.Events {
			if ev := &batch.Events[i]; ev.Key == "/a" {
				got = append(got, fmt.Sprintf("%s %s", ev.Value, ev.Origin))
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("values and origins %q, want %q", got, want)
	}
}

// TestOriginsAreLimited checks that the number of retained origins is limited, and that the newest are retained.
func TestOriginsAreLimited(t *testing.T) {
	t.Parallel()
	o := newOrigins()
	ops := func(n int) []kv.Op {
		return []kv.Op{{Key: "/check", Kind: kv.OpCheck}, {Key: fmt.Sprint("/", n), Value: []byte("v"), Origin: []byte("origin")}}
	}
	known := func(n int) bool { return o.of(&kv.Event{Key: fmt.Sprint("/", n), Value: []byte("v")}) != nil }
	for n := range 2*maxOrigins + 1 {
		o.add(ops(n))
	}
	if len(o.mu.changes) != maxOrigins || known(maxOrigins) || !known(maxOrigins+1) || !known(2*maxOrigins) {
		t.Errorf("%d changes; known: %t %t %t", len(o.mu.changes), known(maxOrigins), known(maxOrigins+1), known(2*maxOrigins))
	}
	o.add(ops(0))()
	if known(0) {
		t.Error("a removed origin is known")
	}
}
