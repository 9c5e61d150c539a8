package kvtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/storage/kv"
)

func testEmpty(t *testing.T, b kv.Backend) {
	if e := get(t, b, "a", 0); e != nil {
		t.Errorf("an empty store contains %v", e)
	}
	res := list(t, b, kv.RangeRequest{})
	if len(res.Entries) != 0 || res.Count != 0 || res.More {
		t.Errorf("range of an empty store: %+v", res)
	}
	if res.Revision != current(t, b) {
		t.Errorf("range has revision %d, the newest is %d", res.Revision, current(t, b))
	}
	if err := b.Health(t.Context()); err != nil {
		t.Errorf("health: %v", err)
	}
	if rev := put(t, b, "a", "1"); rev <= 0 || rev <= res.Revision {
		t.Errorf("first commit has revision %d after %d", rev, res.Revision)
	}
}

func testPutGet(t *testing.T, b kv.Backend) {
	r1 := put(t, b, "a", "1")
	diff(t, "created", get(t, b, "a", 0), &kv.Entry{Key: "a", Value: []byte("1"), Created: r1, Modified: r1})
	r2 := put(t, b, "a", "2")
	if r2 <= r1 {
		t.Fatalf("revision %d after %d", r2, r1)
	}
	diff(t, "updated", get(t, b, "a", 0), &kv.Entry{Key: "a", Value: []byte("2"), Created: r1, Modified: r2})
	r3 := remove(t, b, "a")
	if r3 <= r2 {
		t.Fatalf("revision %d after %d", r3, r2)
	}
	if e := get(t, b, "a", 0); e != nil {
		t.Fatalf("deleted key is %v", e)
	}
	r4 := put(t, b, "a", "3")
	diff(t, "created again", get(t, b, "a", 0), &kv.Entry{Key: "a", Value: []byte("3"), Created: r4, Modified: r4})
	if rev := current(t, b); rev != r4 {
		t.Fatalf("newest revision is %d, want %d", rev, r4)
	}
}

func testValues(t *testing.T, b kv.Backend) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	values := map[string][]byte{
		"nil":    nil,
		"empty":  {},
		"zero":   {0},
		"binary": all,
		"large":  bytes.Repeat([]byte("0123456789abcdef"), 1500<<10/16),
	}
	from := current(t, b) + 1
	w := watch(t, b, "", "", from)
	for key, value := range values {
		commit(t, b, kv.Op{Key: key, Value: value})
	}
	for key, value := range values {
		e := get(t, b, key, 0)
		if e == nil || !bytes.Equal(e.Value, value) {
			t.Errorf("%s: another value was read", key)
		}
	}
	for _, events := range [][]kv.Event{w.until(current(t, b)), watch(t, b, "", "", from).until(current(t, b))} {
		for _, ev := range events {
			if ev.Deleted || !bytes.Equal(ev.Value, values[ev.Key]) || ev.Created != ev.Revision {
				t.Errorf("%s: event has another value or is not a creation", ev.Key)
			}
		}
		if len(events) != len(values) {
			t.Errorf("%d events for %d puts", len(events), len(values))
		}
	}
}

func testKeys(t *testing.T, b kv.Backend) {
	want := []string{"\x01", "\x01\x01", "/", "/a", "/a/b", "/a/b\x01", "/a0", "a", "aa", "a\xff", "a\xff\xff", "b", "ü/☃", "\xff", "\xff\xff"}
	for i := range want {
		put(t, b, want[len(want)-1-i], "x")
	}
	diff(t, "order of keys", keys(list(t, b, kv.RangeRequest{}).Entries), want)
	for _, key := range want {
		if e := get(t, b, key, 0); e == nil || e.Key != key {
			t.Errorf("get %q: %v", key, e)
		}
	}
	long := strings.Repeat("k", 4000)
	put(t, b, long, "x")
	if e := get(t, b, long, 0); e == nil || e.Key != long {
		t.Error("a long key was not found")
	}
}

func testGetAtRevision(t *testing.T, b kv.Backend) {
	put(t, b, "other", "x")
	r1 := put(t, b, "a", "1")
	put(t, b, "other", "y")
	r2 := put(t, b, "a", "2")
	r3 := remove(t, b, "a")
	r4 := put(t, b, "a", "4")
	for _, c := range []struct {
		at   kv.Revision
		want *kv.Entry
	}{
		{r1 - 1, nil},
		{r1, &kv.Entry{Key: "a", Value: []byte("1"), Created: r1, Modified: r1}},
		{r2 - 1, &kv.Entry{Key: "a", Value: []byte("1"), Created: r1, Modified: r1}},
		{r2, &kv.Entry{Key: "a", Value: []byte("2"), Created: r1, Modified: r2}},
		{r3, nil},
		{r4, &kv.Entry{Key: "a", Value: []byte("4"), Created: r4, Modified: r4}},
	} {
		diff(t, fmt.Sprintf("at %d", c.at), get(t, b, "a", c.at), c.want)
	}
	if _, _, err := b.Get(t.Context(), "a", r4+1); !errors.Is(err, kv.ErrFutureRevision) {
		t.Errorf("get in the future: %v", err)
	}
	if _, err := b.Range(t.Context(), kv.RangeRequest{At: r4 + 1}); !errors.Is(err, kv.ErrFutureRevision) {
		t.Errorf("range in the future: %v", err)
	}
}

func testRange(t *testing.T, b kv.Backend) {
	var last kv.Revision
	for _, key := range []string{"c", "a", "b", "d"} {
		last = put(t, b, key, "v"+key)
	}
	last = max(last, remove(t, b, "b"))
	res := list(t, b, kv.RangeRequest{})
	diff(t, "keys", keys(res.Entries), []string{"a", "c", "d"})
	if res.Revision != last || res.Count != 3 || res.More {
		t.Errorf("range: %+v", res)
	}
	for _, e := range res.Entries {
		diff(t, "entry", &e, get(t, b, e.Key, 0))
	}
}

func testRangeBounds(t *testing.T, b kv.Backend) {
	for _, key := range []string{"/a", "/a/1", "/a/2", "/a0", "/b/1", "/c"} {
		put(t, b, key, "x")
	}
	for _, c := range []struct {
		start, end string
		want       []string
	}{
		{"", "", []string{"/a", "/a/1", "/a/2", "/a0", "/b/1", "/c"}},
		{"/a/", kv.PrefixEnd("/a/"), []string{"/a/1", "/a/2"}},
		{"/a", "/a\x00", []string{"/a"}},
		{"/a\x00", "/b/1", []string{"/a/1", "/a/2", "/a0"}},
		{"/a\x00", "/b/1\x00", []string{"/a/1", "/a/2", "/a0", "/b/1"}},
		{"/a/15", "/a/2", []string{}},
		{"/b", "", []string{"/b/1", "/c"}},
		{"", "/a/1", []string{"/a"}},
		{"/c", "/a", []string{}},
		{"/c", "/c", []string{}},
		{"/d", "", []string{}},
	} {
		res := list(t, b, kv.RangeRequest{Start: c.start, End: c.end})
		diff(t, fmt.Sprintf("[%q, %q)", c.start, c.end), keys(res.Entries), c.want)
		count := list(t, b, kv.RangeRequest{Start: c.start, End: c.end, CountOnly: true})
		if count.Count != int64(len(c.want)) || len(count.Entries) != 0 {
			t.Errorf("count of [%q, %q): %+v", c.start, c.end, count)
		}
	}
}

func testRangeLimit(t *testing.T, b kv.Backend) {
	for i := range 10 {
		put(t, b, fmt.Sprintf("k%d", i), "x")
	}
	remove(t, b, "k4")
	for _, c := range []struct {
		limit int
		want  []string
		more  bool
	}{
		{1, []string{"k0"}, true},
		{5, []string{"k0", "k1", "k2", "k3", "k5"}, true},
		{8, []string{"k0", "k1", "k2", "k3", "k5", "k6", "k7", "k8"}, true},
		{9, []string{"k0", "k1", "k2", "k3", "k5", "k6", "k7", "k8", "k9"}, false},
		{10, []string{"k0", "k1", "k2", "k3", "k5", "k6", "k7", "k8", "k9"}, false},
	} {
		res := list(t, b, kv.RangeRequest{Start: "k", End: "l", Limit: c.limit, WithCount: true})
		diff(t, fmt.Sprintf("limit %d", c.limit), keys(res.Entries), c.want)
		if res.More != c.more || res.Count != 9 {
			t.Errorf("limit %d: more %t, count %d", c.limit, res.More, res.Count)
		}
	}
	// Read pages at one revision while the keys change.
	at := current(t, b)
	var paged []string
	for start := "k"; ; {
		res := list(t, b, kv.RangeRequest{Start: start, End: "l", Limit: 2, At: at})
		paged = append(paged, keys(res.Entries)...)
		if !res.More {
			break
		}
		start = paged[len(paged)-1] + "\x00"
		put(t, b, fmt.Sprintf("k%d", len(paged)), "changed")
		remove(t, b, fmt.Sprintf("k%d", len(paged)+1))
		put(t, b, start[:2]+"new", "x")
	}
	diff(t, "pages", paged, []string{"k0", "k1", "k2", "k3", "k5", "k6", "k7", "k8", "k9"})
}

// testRangeCounted reads pages of several lists alternately while keys change, and checks the count
// of remaining keys in each page.
func testRangeCounted(t *testing.T, b kv.Backend) {
	for i := range 40 {
		put(t, b, fmt.Sprintf("/r/n%d/k%02d", i%2, i), "x")
	}
	type paging struct {
		start, end string
		at         kv.Revision
		left       int64
		limit      int
	}
	var open []paging
	for round := range 60 {
		prefix := []string{"/r/", "/r/n0/", "/r/n1/"}[round%3]
		p := paging{start: prefix, end: kv.PrefixEnd(prefix), limit: 1 + round%7}
		count := list(t, b, kv.RangeRequest{Start: p.start, End: p.end, CountOnly: true})
		all := list(t, b, kv.RangeRequest{Start: p.start, End: p.end})
		if p.left = int64(len(all.Entries)); count.Count != p.left || all.Count != p.left {
			t.Fatalf("round %d: counts of %s are %d and %d, want %d", round, prefix, count.Count, all.Count, p.left)
		}
		p.at = all.Revision
		open = append(open, p)
		for i := 0; i < len(open); i++ {
			p := &open[i]
			res := list(t, b, kv.RangeRequest{Start: p.start, End: p.end, At: p.at, Limit: p.limit, WithCount: round%2 == i%2})
			if res.Count != p.left && (!res.More || round%2 == i%2) {
				t.Fatalf("round %d: [%q, %q) at %d counts %d, want %d", round, p.start, p.end, p.at, res.Count, p.left)
			}
			if !res.More {
				open = slices.Delete(open, i, i+1)
				i--
				continue
			}
			// As in package storage, the last entry belongs to the next page.
			n := max(1, len(res.Entries)-1)
			p.start, p.left = res.Entries[n-1].Key+"\x00", p.left-int64(n)
		}
		put(t, b, fmt.Sprintf("/r/n%d/k%02d", round%2, round), "y")
		remove(t, b, fmt.Sprintf("/r/n%d/k%02d", round%2, round/2))
	}
}

func testRangeAtRevision(t *testing.T, b kv.Backend) {
	revs := []kv.Revision{
		put(t, b, "a", "1"), put(t, b, "b", "1"), put(t, b, "a", "2"), remove(t, b, "b"),
		put(t, b, "c", "1"), put(t, b, "b", "2"), remove(t, b, "a"),
	}
	want := [][]string{{"a1"}, {"a1", "b1"}, {"a2", "b1"}, {"a2"}, {"a2", "c1"}, {"a2", "b2", "c1"}, {"b2", "c1"}}
	for i, at := range revs {
		var got []string
		for _, e := range list(t, b, kv.RangeRequest{At: at}).Entries {
			got = append(got, e.Key+string(e.Value))
		}
		diff(t, fmt.Sprintf("after %d commits", i+1), got, want[i])
		if n := list(t, b, kv.RangeRequest{At: at, CountOnly: true}).Count; n != int64(len(want[i])) {
			t.Errorf("count after %d commits: %d, want %d", i+1, n, len(want[i]))
		}
	}
}

func testRangeManyVersions(t *testing.T, b kv.Backend) {
	var at []kv.Revision
	for i := range 50 {
		for _, key := range []string{"a", "b", "c"} {
			put(t, b, key, fmt.Sprint(i))
		}
		at = append(at, put(t, b, fmt.Sprintf("n%02d", i), "x"))
	}
	for i, rev := range at {
		res := list(t, b, kv.RangeRequest{At: rev})
		if len(res.Entries) != 3+i+1 {
			t.Fatalf("at %d: %d entries, want %d", rev, len(res.Entries), 3+i+1)
		}
		for _, e := range res.Entries[:3] {
			if string(e.Value) != fmt.Sprint(i) {
				t.Fatalf("at %d: %s is %s, want %d", rev, e.Key, e.Value, i)
			}
		}
	}
}

func testCompact(t *testing.T, b kv.Backend) {
	r1 := put(t, b, "a", "1")
	put(t, b, "gone", "x")
	put(t, b, "stays", "x")
	r2 := put(t, b, "a", "2")
	remove(t, b, "gone")
	r3 := put(t, b, "b", "1")
	r4 := put(t, b, "a", "3")
	if rev, err := b.CompactedRevision(t.Context()); err != nil || rev > r1 {
		t.Fatalf("compacted before any compaction: %d, %v", rev, err)
	}
	if err := b.Compact(t.Context(), r4+1); !errors.Is(err, kv.ErrFutureRevision) {
		t.Errorf("compact in the future: %v", err)
	}
	if err := b.Compact(t.Context(), r3); err != nil {
		t.Fatalf("compact: %v", err)
	}
	if rev, err := b.CompactedRevision(t.Context()); err != nil || rev != r3 {
		t.Errorf("compacted revision %d, %v; want %d", rev, err, r3)
	}
	for _, at := range []kv.Revision{r1, r2, r3 - 1} {
		if _, _, err := b.Get(t.Context(), "a", at); !errors.Is(err, kv.ErrCompacted) {
			t.Errorf("get at %d: %v", at, err)
		}
		if _, err := b.Range(t.Context(), kv.RangeRequest{At: at}); !errors.Is(err, kv.ErrCompacted) {
			t.Errorf("range at %d: %v", at, err)
		}
	}
	diff(t, "at the compacted revision", keys(list(t, b, kv.RangeRequest{At: r3}).Entries), []string{"a", "b", "stays"})
	diff(t, "value at the compacted revision", get(t, b, "a", r3), &kv.Entry{Key: "a", Value: []byte("2"), Created: r1, Modified: r2})
	diff(t, "newest", get(t, b, "a", 0), &kv.Entry{Key: "a", Value: []byte("3"), Created: r1, Modified: r4})
	if err := b.Compact(t.Context(), r4); err != nil {
		t.Fatalf("compact to the newest: %v", err)
	}
	diff(t, "all compacted", keys(list(t, b, kv.RangeRequest{}).Entries), []string{"a", "b", "stays"})
	diff(t, "after all compacted", get(t, b, "a", 0), &kv.Entry{Key: "a", Value: []byte("3"), Created: r1, Modified: r4})
	res := tryCommit(t, b, kv.Op{Key: "gone", Value: []byte("y")})
	if !res.Committed || res.Revision <= r4 {
		t.Errorf("create after compaction: %+v", res)
	}
}
