package overlay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/internal/storage/kv/kvtest"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

func open(t *testing.T) kv.Backend {
	t.Helper()
	store, err := embedded.Open(embedded.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	return overlay.New(store)
}

func TestContract(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, open)
}

// TestContractWithBase checks the contract for a prefix with an empty base.
func TestContractWithBase(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(t *testing.T) kv.Backend {
		b := open(t).(*overlay.Backend)
		b.Attach("/", overlay.NewEntries(0, nil))
		return b
	})
}

// TestContractOfFork checks the contract for a copy of a copy whose base has no keys.
func TestContractOfFork(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(t *testing.T) kv.Backend {
		b, source := open(t).(*overlay.Backend), storagetest.InMemory(t)
		b.Attach("/", overlay.NewLayer(source, "/between/", 1, overlay.NewLayer(source, "/source/", 1, nil)))
		return b
	})
}

const prefix = "/copy/"

// pair is an overlay and a store with the same visible content. Both receive the same writes.
type pair struct {
	t                *testing.T
	copied, expected kv.Backend
	// revisions maps the revision of an entry in copied to its revision in expected.
	revisions map[kv.Revision]kv.Revision
}

// newPair returns a pair whose base contains the given keys.
func newPair(t *testing.T, keys ...string) *pair {
	t.Helper()
	base, expected := storagetest.InMemory(t), storagetest.InMemory(t)
	p := &pair{t: t, expected: expected, revisions: map[kv.Revision]kv.Revision{}}
	for _, key := range keys {
		was, err := base.Commit(t.Context(), kv.Op{Key: key, Value: []byte("base " + key)})
		if err != nil {
			t.Fatal(err)
		}
		is, err := expected.Commit(t.Context(), kv.Op{Key: prefix + key, Value: []byte("base " + key)})
		if err != nil {
			t.Fatal(err)
		}
		p.revisions[was.Revision] = is.Revision
	}
	content, err := base.Range(t.Context(), kv.RangeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	store := storagetest.InMemory(t)
	for range 2 * len(keys) { // so that all entries of the base are older than writes
		if _, err := store.Commit(t.Context(), kv.Op{Key: "/other", Value: []byte("x"), Expect: kv.AnyRevision}); err != nil {
			t.Fatal(err)
		}
	}
	copied := overlay.New(store)
	copied.Attach(prefix, overlay.NewEntries(content.Revision, content.Entries))
	p.copied = copied
	return p
}

// commit applies an op to both stores. op.Expect is a revision in the overlay.
func (p *pair) commit(op kv.Op) {
	p.t.Helper()
	got, err := p.copied.Commit(p.t.Context(), op)
	if err != nil {
		p.t.Fatal(err)
	}
	if op.Expect > 0 {
		if op.Expect = p.revisions[op.Expect]; op.Expect == 0 {
			op.Expect = 1 << 40
		}
	}
	want, err := p.expected.Commit(p.t.Context(), op)
	if err != nil {
		p.t.Fatal(err)
	}
	if got.Committed != want.Committed {
		p.t.Fatalf("%+v: committed %v, want %v; current %+v, revisions %v", op, got.Committed, want.Committed, orEmpty(got.Current[0]), p.revisions)
	}
	if !got.Committed {
		p.compare([]kv.Entry{*orEmpty(got.Current[0])}, []kv.Entry{*orEmpty(want.Current[0])})
	}
	if got.Committed && op.Kind == kv.OpPut {
		p.revisions[got.Revision] = want.Revision
	}
}

func orEmpty(e *kv.Entry) *kv.Entry {
	if e == nil {
		return &kv.Entry{}
	}
	return e
}

// compare compares entries of the two stores, except for Created.
func (p *pair) compare(got, want []kv.Entry) {
	p.t.Helper()
	translate := func(entries []kv.Entry, revision func(kv.Revision) kv.Revision) (out []string) {
		for _, e := range entries {
			out = append(out, fmt.Sprintf("%s=%s@%d", e.Key, e.Value, revision(e.Modified)))
		}
		return out
	}
	if diff := cmp.Diff(translate(want, func(r kv.Revision) kv.Revision { return r }), translate(got, func(r kv.Revision) kv.Revision { return p.revisions[r] })); diff != "" {
		p.t.Fatalf("entries (-want +got):\n%s", diff)
	}
}

// check compares a range of the two stores.
func (p *pair) check(req kv.RangeRequest) {
	p.t.Helper()
	got, err := p.copied.Range(p.t.Context(), req)
	if err != nil {
		p.t.Fatal(err)
	}
	want, err := p.expected.Range(p.t.Context(), req)
	if err != nil {
		p.t.Fatal(err)
	}
	p.compare(got.Entries, want.Entries)
	if got.More != want.More || (!got.More || req.WithCount) && got.Count != want.Count {
		p.t.Fatalf("%+v: more %v, count %d; want %v, %d", req, got.More, got.Count, want.More, want.Count)
	}
}

// newLayeredPair returns a pair whose base is a chain of layers: a copy of a changed copy of the given keys.
// The returned function changes the sources of the copies, and sometimes compacts their history.
func newLayeredPair(t *testing.T, random *rand.Rand, keys ...string) (*pair, func()) {
	t.Helper()
	store := storagetest.InMemory(t)
	pin := func(prefix string) kv.Revision {
		at, err := store.CurrentRevision(t.Context())
		if err == nil {
			err = store.Pin(t.Context(), "test", prefix, at)
		}
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, key := range keys {
		commitOne(t, store, kv.Op{Key: "/source/" + key, Value: []byte("source " + key)})
	}
	commitOne(t, store, kv.Op{Key: "/source/z", Value: []byte("source z")})
	between, copied := overlay.New(store), overlay.New(store)
	layer := overlay.NewLayer(store, "/source/", pin("/source/"), nil)
	between.Attach("/between/", layer)
	change := func(of kv.Backend, prefix string) {
		op := kv.Op{Key: prefix + fmt.Sprint([]string{"a", "a/b", "c/d", "y", "z"}[random.IntN(5)]), Value: fmt.Append(nil, random.Int()), Expect: kv.AnyRevision}
		if random.IntN(2) == 0 {
			op.Kind, op.Value = kv.OpDelete, nil
		}
		commitOne(t, of, op)
	}
	for range random.IntN(6) {
		change(between, "/between/")
	}
	commitOne(t, store, kv.Op{Key: "/other", Value: []byte("x")}) // so that the revisions of the layers differ
	copied.Attach(prefix, overlay.NewLayer(store, "/between/", pin("/between/"), layer))
	content, err := copied.Range(t.Context(), kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix)})
	if err != nil {
		t.Fatal(err)
	}
	visible, err := between.Range(t.Context(), kv.RangeRequest{Start: "/between/", End: kv.PrefixEnd("/between/")})
	if err != nil || len(visible.Entries) != len(content.Entries) {
		t.Fatalf("%d entries are copied, want %d, %v", len(content.Entries), len(visible.Entries), err)
	}
	p := &pair{t: t, copied: copied, expected: storagetest.InMemory(t), revisions: map[kv.Revision]kv.Revision{}}
	for _, e := range content.Entries {
		p.revisions[e.Modified] = commitOne(t, p.expected, kv.Op{Key: e.Key, Value: e.Value}).Revision
	}
	return p, func() {
		change(store, "/source/")
		change(between, "/between/")
		newest, err := store.CurrentRevision(t.Context())
		if err == nil && random.IntN(8) == 0 {
			err = store.Compact(t.Context(), newest)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestModel compares the reads, commit results and events of an overlay with those of a store during random
// writes.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			base := modelNames()[:random.IntN(len(modelNames())+1)]
			testModel(t, newPair(t, base...), random, func() {})
		})
		t.Run(fmt.Sprint("layers ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 2))
			p, change := newLayeredPair(t, random, modelNames()[:random.IntN(len(modelNames())+1)]...)
			testModel(t, p, random, change)
		})
	}
}

func modelNames() []string { return []string{"a", "a/b", "a/c", "b!", "b", "c/d", "d", "e"} }

// testModel applies random writes to a pair. between is called before each write.
func testModel(t *testing.T, p *pair, random *rand.Rand, between func()) {
	got, want := newReceiver(t, p.copied), newReceiver(t, p.expected)
	for range 200 {
		between()
		key := prefix + modelNames()[random.IntN(len(modelNames()))]
		op := kv.Op{Key: key, Kind: kv.OpKind(random.IntN(3)), Value: []byte(fmt.Sprint(random.Int()))}
		current, _, err := p.copied.Get(t.Context(), key, 0)
		if err != nil {
			t.Fatal(err)
		}
		switch random.IntN(4) {
		case 0:
			op.Expect = kv.AnyRevision
		case 1:
			op.Expect = 2 // the oldest revision of the base
		case 2:
			op.Expect = 0
		default:
			op.Expect = orEmpty(current).Modified
		}
		p.commit(op)
		for _, req := range []kv.RangeRequest{
			{Start: prefix, End: kv.PrefixEnd(prefix)}, {Start: prefix, End: kv.PrefixEnd(prefix), Limit: 1 + random.IntN(4), WithCount: random.IntN(2) == 0},
			{Start: key, End: kv.PrefixEnd(prefix), Limit: random.IntN(3)}, {Start: prefix + "a/", End: kv.PrefixEnd(prefix + "a/"), CountOnly: true},
		} {
			p.check(req)
		}
		want.receive(p.expected) // before they are compacted
		got.receive(p.copied)
	}
	if diff := cmp.Diff(want.events, got.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// receiver receives the events of a prefix.
type receiver struct {
	t      *testing.T
	w      kv.Watch
	events []string
	at     kv.Revision // progress
}

func newReceiver(t *testing.T, from kv.Backend) *receiver {
	t.Helper()
	w, err := from.Watch(t.Context(), prefix, kv.PrefixEnd(prefix), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return &receiver{t: t, w: w}
}

// receive receives the events up to the current revision.
func (r *receiver) receive(of kv.Backend) {
	r.t.Helper()
	newest, err := of.CurrentRevision(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	if err := of.RequestProgress(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	for r.at < newest { // an already reported revision is not reported again
		batch, ok := <-r.w.Batches()
		if !ok {
			r.t.Fatal(r.w.Err())
		}
		r.at = batch.Revision
		for _, ev := range batch.Events {
			before := orEmpty(ev.Prev)
			r.events = append(r.events, fmt.Sprintf("%s: %q -> %q, deleted %v, created %v", ev.Key, before.Value, ev.Value, ev.Deleted, !ev.Deleted && ev.Created == ev.Revision))
		}
	}
}

// TestSeparateCopies checks that writes to a prefix are not visible in another prefix with the same base.
func TestSeparateCopies(t *testing.T) {
	t.Parallel()
	base := overlay.NewEntries(0, []kv.Entry{{Key: "a", Value: []byte("base")}, {Key: "b", Value: []byte("base")}})
	b := overlay.New(storagetest.InMemory(t))
	b.Attach("/1/", base)
	b.Attach("/2/", base)
	if _, err := b.Commit(t.Context(), kv.Op{Key: "/1/a", Kind: kv.OpDelete, Expect: kv.AnyRevision}, kv.Op{Key: "/1/b", Value: []byte("changed"), Expect: kv.AnyRevision}); err != nil {
		t.Fatal(err)
	}
	for _, copied := range []struct{ prefix, want string }{{"/1/", "b=changed "}, {"/2/", "a=base b=base "}} {
		list, err := b.Range(t.Context(), kv.RangeRequest{Start: copied.prefix, End: kv.PrefixEnd(copied.prefix)})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, e := range list.Entries {
			got += fmt.Sprintf("%s=%s ", e.Key[len(copied.prefix):], e.Value)
		}
		if got != copied.want {
			t.Errorf("%s contains %q, want %q", copied.prefix, got, copied.want)
		}
	}
}

// TestEqualRevisions checks that a key can be written if its stored revision equals its revision in the base,
// as after a migration of the store.
func TestEqualRevisions(t *testing.T) {
	t.Parallel()
	b := overlay.New(storagetest.InMemory(t))
	first := commitOne(t, b, kv.Op{Key: prefix + "a", Value: []byte("stored"), Expect: kv.AnyRevision})
	b.Attach(prefix, overlay.NewEntries(first.Revision, []kv.Entry{{Key: "a", Value: []byte("base"), Created: first.Revision, Modified: first.Revision}}))
	second := commitOne(t, b, kv.Op{Key: prefix + "a", Value: []byte("x"), Expect: first.Revision})
	if third := commitOne(t, b, kv.Op{Key: prefix + "a", Kind: kv.OpDelete, Expect: second.Revision}); !second.Committed || !third.Committed {
		t.Errorf("the update was committed: %v, the deletion: %v", second.Committed, third.Committed)
	}
}

func commitOne(t *testing.T, b kv.Backend, op kv.Op) kv.CommitResult {
	t.Helper()
	result, err := b.Commit(t.Context(), op)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// TestBeforeBase checks that revisions before the base cannot be read or watched.
func TestBeforeBase(t *testing.T) {
	t.Parallel()
	p := newPair(t, "a", "b", "c")
	if _, _, err := p.copied.Get(t.Context(), prefix+"a", 2); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("Get: %v", err)
	}
	if _, err := p.copied.Range(t.Context(), kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix), At: 2}); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("Range: %v", err)
	}
	if _, err := p.copied.Watch(t.Context(), prefix, kv.PrefixEnd(prefix), 3); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("Watch: %v", err)
	}
}

// broken is a base that cannot be read.
type broken struct{ overlay.Base }

func (broken) Revision() kv.Revision { return 0 }

func (broken) Get(context.Context, string) (*kv.Entry, error) { return nil, kv.ErrUnavailable }

// TestBrokenBase checks that a watch ends with the error of the base.
func TestBrokenBase(t *testing.T) {
	t.Parallel()
	store := storagetest.InMemory(t)
	b := overlay.New(store)
	b.Attach(prefix, broken{})
	w, err := b.Watch(t.Context(), prefix, kv.PrefixEnd(prefix), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(t.Context(), kv.Op{Key: prefix + "a", Value: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	for range w.Batches() {
	}
	if !errors.Is(w.Err(), kv.ErrUnavailable) {
		t.Errorf("the watch ended with %v", w.Err())
	}
}

// compacting is a backend that compacts all history before each read at a past revision.
type compacting struct {
	kv.Backend
	t     *testing.T
	reads int // number of reads at a past revision
}

func (c *compacting) Range(ctx context.Context, req kv.RangeRequest) (kv.RangeResult, error) {
	if req.At > 0 {
		if c.reads++; c.reads > 20 {
			c.t.Fatal("the range is read again and again")
		}
		newest := commitOne(c.t, c.Backend, kv.Op{Key: "/other", Value: []byte("x"), Expect: kv.AnyRevision}).Revision
		if err := c.Compact(ctx, newest); err != nil {
			c.t.Fatal(err)
		}
	}
	return c.Backend.Range(ctx, req)
}

// TestCompactedBetweenPages checks that a range of several pages is complete, although the revision of its first
// page is compacted before the second page is read.
func TestCompactedBetweenPages(t *testing.T) {
	t.Parallel()
	store := storagetest.InMemory(t)
	const keys = 1500 // more than a page
	for i := range keys {
		commitOne(t, store, kv.Op{Key: fmt.Sprintf("%s%04d", prefix, i), Value: []byte("x")})
	}
	for _, req := range []kv.RangeRequest{{}, {WithCount: true, Limit: 1200}, {CountOnly: true}} {
		req.Start, req.End = prefix, kv.PrefixEnd(prefix)
		b := overlay.New(&compacting{Backend: store, t: t})
		b.Attach(prefix, overlay.NewEntries(0, []kv.Entry{{Key: "base", Value: []byte("x"), Created: 1, Modified: 1}}))
		result, err := b.Range(t.Context(), req)
		if err != nil || result.Count != keys+1 {
			t.Errorf("%+v: %d of %d keys, %v", req, result.Count, keys+1, err)
		}
	}
}

// compactedBase is a base whose revision is no longer readable.
type compactedBase struct {
	overlay.Base
	t     *testing.T
	scans int
}

func (*compactedBase) Revision() kv.Revision { return 0 }

func (b *compactedBase) Scan(string, string, int) overlay.Cursor {
	if b.scans++; b.scans > 20 {
		b.t.Fatal("the base is read again and again")
	}
	return b
}

func (*compactedBase) Next(context.Context) (*kv.Entry, error) { return nil, kv.ErrCompacted }

// TestCompactedBase checks that a range ends with the error of its base.
func TestCompactedBase(t *testing.T) {
	t.Parallel()
	b := overlay.New(storagetest.InMemory(t))
	b.Attach(prefix, &compactedBase{t: t})
	if _, err := b.Range(t.Context(), kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix)}); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("a range over an unreadable base: %v", err)
	}
}

// slowlyEnding is a backend whose watches deliver one batch, and end some time after Stop.
type slowlyEnding struct {
	kv.Backend
	received, finish chan struct{}
}

type slowlyEndingWatch struct {
	batches chan kv.Batch
	stop    context.CancelFunc
	err     error // set before batches is closed
}

func (s slowlyEnding) Watch(ctx context.Context, _, _ string, _ kv.Revision) (kv.Watch, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &slowlyEndingWatch{batches: make(chan kv.Batch), stop: cancel}
	go func() {
		w.batches <- kv.Batch{Revision: 1}
		close(s.received)
		<-ctx.Done()
		<-s.finish
		w.err = kv.ErrClosed
		close(w.batches)
	}()
	return w, nil
}

func (w *slowlyEndingWatch) Batches() <-chan kv.Batch { return w.batches }
func (w *slowlyEndingWatch) Err() error               { return w.err }
func (w *slowlyEndingWatch) Stop()                    { w.stop() }

// TestEndOfWatch checks that a stopped watch ends only after the watch of the stored keys, because the error
// of that watch is unknown until then.
func TestEndOfWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := slowlyEnding{received: make(chan struct{}), finish: make(chan struct{})}
		w, err := overlay.New(store).Watch(t.Context(), prefix, kv.PrefixEnd(prefix), 1)
		if err != nil {
			t.Fatal(err)
		}
		<-store.received
		w.Stop()
		synctest.Wait()
		select {
		case batch, ok := <-w.Batches():
			t.Errorf("received %+v, %t before the end of the watch of the stored keys", batch, ok)
		default:
		}
		close(store.finish)
		if batch, ok := <-w.Batches(); ok || !errors.Is(w.Err(), kv.ErrClosed) {
			t.Errorf("received %+v, %t; the error is %v", batch, ok, w.Err())
		}
	})
}
