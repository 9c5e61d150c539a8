package kvtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

func testCompare(t *testing.T, b kv.Backend) {
	r1 := commit(t, b, kv.Op{Key: "a", Value: []byte("1"), Expect: 0})
	found := []*kv.Entry{{Key: "a", Value: []byte("1"), Created: r1, Modified: r1}}
	refused := func(what string, op kv.Op, current []*kv.Entry) {
		t.Helper()
		before := rev(t, b)
		res := tryCommit(t, b, op)
		if res.Committed || res.Revision != before {
			t.Errorf("%s: %+v, the newest revision is %d", what, res, before)
		}
		diff(t, what, res.Current, current)
		if after := rev(t, b); after != before {
			t.Errorf("%s consumed a revision: %d, then %d", what, before, after)
		}
	}
	refused("create of an existing key", kv.Op{Key: "a", Value: []byte("x")}, found)
	refused("put at another revision", kv.Op{Key: "a", Value: []byte("x"), Expect: r1 + 1}, found)
	refused("delete at another revision", kv.Op{Key: "a", Kind: kv.OpDelete, Expect: r1 - 1}, found)
	refused("check of absence", kv.Op{Key: "a", Kind: kv.OpCheck}, found)
	refused("put of a missing key", kv.Op{Key: "b", Expect: r1}, []*kv.Entry{nil})
	refused("delete of a missing key", kv.Op{Key: "b", Kind: kv.OpDelete, Expect: r1}, []*kv.Entry{nil})
	r2 := commit(t, b, kv.Op{Key: "a", Value: []byte("2"), Expect: r1})
	refused("put at an old revision", kv.Op{Key: "a", Expect: r1}, []*kv.Entry{{Key: "a", Value: []byte("2"), Created: r1, Modified: r2}})
	commit(t, b, kv.Op{Key: "a", Kind: kv.OpDelete, Expect: r2})
	refused("put of a deleted key", kv.Op{Key: "a", Expect: r2}, []*kv.Entry{nil})
	commit(t, b, kv.Op{Key: "a", Value: []byte("3"), Expect: 0})
}

// testTooLarge checks commits just below and above the size limit.
func testTooLarge(t *testing.T, b kv.Backend) {
	const limit = 3 << 19
	r1 := commit(t, b, kv.Op{Key: "a", Value: bytes.Repeat([]byte("a"), limit-4<<10)})
	for _, size := range []int{limit, limit + 1, limit + 600<<10, 20 << 20} {
		_, err := b.Commit(t.Context(), kv.Op{Key: "a", Value: bytes.Repeat([]byte("b"), size), Expect: r1})
		if !errors.Is(err, kv.ErrTooLarge) {
			t.Errorf("a value of %d bytes: %v, want ErrTooLarge", size, err)
		}
	}
	half := bytes.Repeat([]byte("c"), limit/2)
	_, err := b.Commit(t.Context(), kv.Op{Key: "a", Value: half, Expect: r1}, kv.Op{Key: "b", Value: half}, kv.Op{Key: "c", Value: half})
	if !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("three values: %v, want ErrTooLarge", err)
	}
	if e := get(t, b, "a", 0); e == nil || e.Modified != r1 || len(e.Value) != limit-4<<10 {
		t.Errorf("key a was changed")
	}
	if now := rev(t, b); now != r1 {
		t.Errorf("revision %d, want %d", now, r1)
	}
	put(t, b, "a", "small")
}

func rev(t *testing.T, b kv.Backend) kv.Revision { t.Helper(); return current(t, b) }

func testCompareAtomic(t *testing.T, b kv.Backend) {
	r1 := put(t, b, "a", "1")
	put(t, b, "b", "1")
	res := tryCommit(t, b,
		kv.Op{Key: "a", Value: []byte("2"), Expect: r1},
		kv.Op{Key: "b", Value: []byte("2"), Expect: r1},
		kv.Op{Key: "c", Value: []byte("2")},
	)
	if res.Committed || len(res.Current) != 3 {
		t.Fatalf("a transaction with one false expectation: %+v", res)
	}
	diff(t, "found", res.Current, []*kv.Entry{get(t, b, "a", 0), get(t, b, "b", 0), nil})
	for key, want := range map[string]string{"a": "1", "b": "1"} {
		if e := get(t, b, key, 0); string(e.Value) != want {
			t.Errorf("%s is %s", key, e.Value)
		}
	}
	if get(t, b, "c", 0) != nil {
		t.Error("a rejected transaction wrote c")
	}
}

func testCheckAndAny(t *testing.T, b kv.Backend) {
	r1 := put(t, b, "lock", "mine")
	r2 := commit(t, b,
		kv.Op{Key: "lock", Kind: kv.OpCheck, Expect: r1},
		kv.Op{Key: "absent", Kind: kv.OpCheck},
		kv.Op{Key: "whatever", Kind: kv.OpCheck, Expect: kv.AnyRevision},
		kv.Op{Key: "a", Value: []byte("1"), Expect: kv.AnyRevision},
	)
	if e := get(t, b, "lock", 0); e.Modified != r1 {
		t.Errorf("a check modified the key: %v", e)
	}
	put(t, b, "lock", "theirs")
	res := tryCommit(t, b,
		kv.Op{Key: "lock", Kind: kv.OpCheck, Expect: r1},
		kv.Op{Key: "a", Value: []byte("2"), Expect: r2},
	)
	if res.Committed {
		t.Error("a transaction with a false check was committed")
	}
	commit(t, b, kv.Op{Key: "a", Value: []byte("3"), Expect: kv.AnyRevision})
	commit(t, b, kv.Op{Key: "a", Kind: kv.OpDelete, Expect: kv.AnyRevision})
	if get(t, b, "a", 0) != nil {
		t.Error("a was not deleted")
	}
}

func testDeleteAbsent(t *testing.T, b kv.Backend) {
	before := put(t, b, "a", "1")
	w := watch(t, b, "", "", before+1)
	for _, expect := range []kv.Revision{0, kv.AnyRevision} {
		res := tryCommit(t, b, kv.Op{Key: "b", Kind: kv.OpDelete, Expect: expect})
		if !res.Committed || res.Revision != before {
			t.Errorf("delete of an absent key, expecting %d: %+v", expect, res)
		}
	}
	r := commit(t, b, kv.Op{Key: "b", Kind: kv.OpDelete}, kv.Op{Key: "c", Value: []byte("1")})
	events := w.until(r)
	if len(events) != 1 || events[0].Key != "c" {
		t.Errorf("events: %v", events)
	}
}

func testNothingWritten(t *testing.T, b kv.Backend) {
	r1 := put(t, b, "a", "1")
	r2 := put(t, b, "b", "1")
	res := tryCommit(t, b, kv.Op{Key: "a", Kind: kv.OpCheck, Expect: r1}, kv.Op{Key: "c", Kind: kv.OpCheck})
	if !res.Committed || res.Revision != r2 || current(t, b) != r2 {
		t.Errorf("checks alone: %+v, newest %d, want %d", res, current(t, b), r2)
	}
	if r3 := put(t, b, "b", "2"); r3 <= r2 {
		t.Errorf("revision %d after %d", r3, r2)
	}
}

func testMultipleOps(t *testing.T, b kv.Backend) {
	r1 := put(t, b, "a", "1")
	put(t, b, "b", "1")
	ops := []kv.Op{
		{Key: "a", Value: []byte("2"), Expect: r1},
		{Key: "b", Kind: kv.OpDelete, Expect: kv.AnyRevision},
	}
	for i := range 100 {
		ops = append(ops, kv.Op{Key: fmt.Sprintf("n/%03d", i), Value: []byte("x")})
	}
	r2 := commit(t, b, ops...)
	if e := get(t, b, "a", 0); e.Modified != r2 || string(e.Value) != "2" {
		t.Errorf("a is %v", e)
	}
	if get(t, b, "b", 0) != nil {
		t.Error("b was not deleted")
	}
	res := list(t, b, kv.RangeRequest{Start: "n/", End: kv.PrefixEnd("n/")})
	if len(res.Entries) != 100 {
		t.Fatalf("%d new keys", len(res.Entries))
	}
	for _, e := range res.Entries {
		if e.Created != r2 || e.Modified != r2 {
			t.Fatalf("%v does not have revision %d", e, r2)
		}
	}
	// No read observes a part of a transaction.
	if n := list(t, b, kv.RangeRequest{At: r2 - 1, CountOnly: true}).Count; n != 2 {
		t.Errorf("%d keys before the transaction", n)
	}
}

func testInvalidCommits(t *testing.T, b kv.Backend) {
	before := current(t, b)
	for what, ops := range map[string][]kv.Op{
		"no operations":       {},
		"an empty key":        {{Key: ""}},
		"a key twice":         {{Key: "a"}, {Key: "b"}, {Key: "a", Kind: kv.OpCheck}},
		"an invalid revision": {{Key: "a", Expect: -2}},
	} {
		if res, err := b.Commit(t.Context(), ops...); err == nil {
			t.Errorf("%s: %+v", what, res)
		}
	}
	if after := current(t, b); after != before {
		t.Errorf("revision %d, then %d", before, after)
	}
}

func testConcurrentRevisions(t *testing.T, b kv.Backend) {
	const writers, each = 16, 25
	w := watch(t, b, "", "", current(t, b)+1)
	var mu sync.Mutex
	seen := map[kv.Revision]string{}
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			last := kv.Revision(0)
			for j := range each {
				key := fmt.Sprintf("%02d/%02d", i, j)
				res, err := b.Commit(t.Context(), kv.Op{Key: key, Value: []byte(key)})
				if err != nil || !res.Committed || res.Revision <= last {
					t.Errorf("%s: %+v, %v, after revision %d", key, res, err, last)
					return
				}
				last = res.Revision
				mu.Lock()
				if other, taken := seen[last]; taken {
					t.Errorf("%s and %s have the same revision %d", key, other, last)
				}
				seen[last] = key
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	events := w.until(current(t, b))
	if len(events) != writers*each {
		t.Fatalf("%d events for %d commits", len(events), writers*each)
	}
	for _, ev := range events {
		if seen[ev.Revision] != ev.Key {
			t.Fatalf("event of %s at %d, the acknowledged key is %s", ev.Key, ev.Revision, seen[ev.Revision])
		}
	}
}

func testConcurrentCounter(t *testing.T, b kv.Backend) {
	const writers, each = 8, 20
	put(t, b, "n", "0")
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if err := increment(t.Context(), b, "n"); err != nil {
					t.Errorf("increment: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if e := get(t, b, "n", 0); string(e.Value) != strconv.Itoa(writers*each) {
		t.Errorf("the counter is %s after %d increments", e.Value, writers*each)
	}
}

// increment adds one to the value of a key by compare-and-swap.
func increment(ctx context.Context, b kv.Backend, key string) error {
	e, _, err := b.Get(ctx, key, 0)
	if err != nil {
		return err
	}
	for {
		n, err := strconv.Atoi(string(e.Value))
		if err != nil {
			return err
		}
		res, err := b.Commit(ctx, kv.Op{Key: key, Value: []byte(strconv.Itoa(n + 1)), Expect: e.Modified})
		if err != nil || res.Committed {
			return err
		}
		e = res.Current[0]
	}
}

func testReadAfterAcknowledge(t *testing.T, b kv.Backend) {
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			key := fmt.Sprintf("k%d", i)
			for j := range 50 {
				res, err := b.Commit(t.Context(), kv.Op{Key: key, Value: []byte(strconv.Itoa(j)), Expect: kv.AnyRevision})
				if err != nil {
					t.Errorf("commit: %v", err)
					return
				}
				e, at, err := b.Get(t.Context(), key, 0)
				if err != nil || e == nil || e.Modified != res.Revision || at < res.Revision {
					t.Errorf("after revision %d was acknowledged, a read returned %v at %d, %v", res.Revision, e, at, err)
					return
				}
				if now, err := b.CurrentRevision(t.Context()); err != nil || now < res.Revision {
					t.Errorf("after revision %d was acknowledged, the newest is %d, %v", res.Revision, now, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func testContext(t *testing.T, b kv.Backend) {
	put(t, b, "a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := current(t, b)
	if _, err := b.Commit(ctx, kv.Op{Key: "b"}); !errors.Is(err, context.Canceled) {
		t.Errorf("commit: %v", err)
	}
	if _, _, err := b.Get(ctx, "a", 0); !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v", err)
	}
	if _, err := b.Range(ctx, kv.RangeRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("range: %v", err)
	}
	if _, err := b.Watch(ctx, "", "", 0); !errors.Is(err, context.Canceled) {
		t.Errorf("watch: %v", err)
	}
	if after := current(t, b); after != before || get(t, b, "b", 0) != nil {
		t.Errorf("a commit with a canceled context was applied")
	}
}

func testTTL(t *testing.T, b kv.Backend) {
	w := watch(t, b, "", "", current(t, b)+1)
	began := time.Now()
	r1 := commit(t, b, kv.Op{Key: "short", Value: []byte("x"), TTL: time.Second})
	commit(t, b, kv.Op{Key: "long", Value: []byte("x"), TTL: time.Hour})
	commit(t, b, kv.Op{Key: "ever", Value: []byte("x")})
	if get(t, b, "short", 0) == nil && time.Since(began) < time.Second {
		t.Error("the key expired immediately")
	}
	eventually(t, "expiry", func() bool { return get(t, b, "short", 0) == nil })
	if d := time.Since(began); d < time.Second {
		t.Errorf("the key expired after %s", d)
	}
	events := w.until(current(t, b))
	last := events[len(events)-1]
	if len(events) != 4 || last.Key != "short" || !last.Deleted || last.Prev == nil || last.Prev.Modified != r1 {
		t.Errorf("events: %+v", events)
	}
	diff(t, "remaining keys", keys(list(t, b, kv.RangeRequest{}).Entries), []string{"ever", "long"})
}

func testTTLReplaced(t *testing.T, b kv.Backend) {
	for _, key := range []string{"permanent", "prolonged", "deleted", "recreated"} {
		commit(t, b, kv.Op{Key: key, Value: []byte("1"), TTL: 2 * time.Second})
	}
	put(t, b, "permanent", "2")
	commit(t, b, kv.Op{Key: "prolonged", Value: []byte("2"), Expect: kv.AnyRevision, TTL: time.Hour})
	remove(t, b, "deleted")
	remove(t, b, "recreated")
	commit(t, b, kv.Op{Key: "recreated", Value: []byte("2")})
	commit(t, b, kv.Op{Key: "witness", Value: []byte("1"), TTL: 3 * time.Second})
	eventually(t, "expiry of the last key", func() bool { return get(t, b, "witness", 0) == nil })
	diff(t, "remaining keys", keys(list(t, b, kv.RangeRequest{}).Entries), []string{"permanent", "prolonged", "recreated"})
}

func testClose(t *testing.T, b kv.Backend) {
	put(t, b, "a", "1")
	w := watch(t, b, "", "", 0)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := 0; ; j++ {
				_, err := b.Commit(context.Background(), kv.Op{Key: fmt.Sprintf("%d/%d", i, j)})
				if errors.Is(err, kv.ErrClosed) {
					return
				}
				if err != nil && !errors.Is(err, kv.ErrUnavailable) {
					t.Errorf("commit while closing: %v", err)
					return
				}
			}
		})
	}
	put(t, b, "b", "1")
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	wg.Wait()
	if err := w.ended(); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("the watch ended with %v", err)
	}
	if _, _, err := b.Get(t.Context(), "a", 0); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("get: %v", err)
	}
	if _, err := b.Range(t.Context(), kv.RangeRequest{}); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("range: %v", err)
	}
	if _, err := b.Commit(t.Context(), kv.Op{Key: "c"}); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("commit: %v", err)
	}
	if _, err := b.Watch(t.Context(), "", "", 0); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("watch: %v", err)
	}
	if _, err := b.CurrentRevision(t.Context()); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("current revision: %v", err)
	}
	if err := b.Health(t.Context()); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("health: %v", err)
	}
	if err := b.Close(); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("close again: %v", err)
	}
}
