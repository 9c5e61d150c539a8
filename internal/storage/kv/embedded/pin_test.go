package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// pinTest compares pinned states of a store with recorded states.
type pinTest struct {
	t   *testing.T
	s   *Store
	dir string
	// states contains the values at each revision.
	states map[kv.Revision]map[string]string
	// pinned are the pins by owner.
	pinned map[string]kv.Pin
	random *rand.Rand
}

func (p *pinTest) newest() kv.Revision { return kv.Revision(p.s.published.Load()) }

// write changes a random key.
func (p *pinTest) write() {
	p.t.Helper()
	op := kv.Op{Key: fmt.Sprintf("/%d/%d", p.random.IntN(2), p.random.IntN(4)), Value: fmt.Append(nil, p.random.Int()), Expect: kv.AnyRevision}
	if p.random.IntN(3) == 0 {
		op.Kind, op.Value = kv.OpDelete, nil
	}
	state := maps.Clone(p.states[p.newest()])
	result, err := p.s.Commit(p.t.Context(), op)
	if err != nil {
		p.t.Fatal(err)
	}
	if state == nil {
		state = map[string]string{}
	}
	if op.Kind == kv.OpDelete {
		delete(state, op.Key)
	} else {
		state[op.Key] = string(op.Value)
	}
	p.states[result.Revision] = state
}

// pin pins a random revision that is not compacted, or the state of another pin.
func (p *pinTest) pin() {
	p.t.Helper()
	owner := fmt.Sprint(p.random.Int())
	oldest := kv.Revision(max(p.s.compacted.Load(), 2))
	x := kv.Pin{Revision: oldest + kv.Revision(p.random.Int64N(int64(p.newest()-oldest)+1)), Prefix: fmt.Sprintf("/%d/", p.random.IntN(2)), Owner: owner}
	if p.random.IntN(2) == 0 {
		for _, other := range p.pinned {
			x.Revision, x.Prefix = other.Revision, other.Prefix
		}
	}
	if err := p.s.Pin(p.t.Context(), owner, x.Prefix, x.Revision); err != nil {
		p.t.Fatal(err)
	}
	p.pinned[owner] = x
}

func (p *pinTest) unpin() {
	p.t.Helper()
	for owner := range p.pinned {
		if err := p.s.Unpin(p.t.Context(), owner); err != nil {
			p.t.Fatal(err)
		}
		delete(p.pinned, owner)
		return
	}
}

// reopen closes the store, checks it and opens it again.
func (p *pinTest) reopen() {
	p.t.Helper()
	if err := p.s.Close(); err != nil {
		p.t.Fatal(err)
	}
	report, err := Check(p.t.Context(), p.dir, nil)
	if err != nil || report.Pins != int64(len(p.pinned)) {
		p.t.Fatalf("check the store: %+v, error %v; want %d pins", report, err, len(p.pinned))
	}
	p.s = open(p.t, Config{Dir: p.dir, Retention: -1})
}

// restore continues with a store that is restored from a snapshot.
func (p *pinTest) restore() {
	p.t.Helper()
	var snapshot bytes.Buffer
	state := p.states[p.newest()]
	if _, err := p.s.Snapshot(p.t.Context(), &snapshot); err != nil {
		p.t.Fatal(err)
	}
	if err := p.s.Close(); err != nil {
		p.t.Fatal(err)
	}
	p.dir = p.t.TempDir()
	if err := Restore(&snapshot, p.dir); err != nil {
		p.t.Fatal(err)
	}
	p.s = open(p.t, Config{Dir: p.dir, Retention: -1})
	p.states[p.newest()] = state
}

// rewrite adds a suffix to the older values, or removes it.
func (p *pinTest) rewrite() {
	p.t.Helper()
	err := p.s.RewriteOlder(p.t.Context(), func(e *kv.Entry) ([]byte, error) {
		if value, ok := bytes.CutSuffix(e.Value, []byte(rewritten)); ok {
			return bytes.Clone(value), nil
		}
		return fmt.Append(nil, string(e.Value), rewritten), nil
	})
	if err == nil && p.random.IntN(2) == 0 {
		err = p.s.Purge(p.t.Context())
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// rewritten is the suffix of rewritten values.
const rewritten = "!"

// plain returns a value without its suffix.
func plain(value []byte) string { return strings.TrimSuffix(string(value), rewritten) }

// check compares the states of all pins and the newest state with the recorded states.
func (p *pinTest) check() {
	p.t.Helper()
	for _, x := range append([]kv.Pin{{Revision: p.newest(), Prefix: "/0/"}, {Revision: p.newest(), Prefix: "/1/"}}, pinsOf(p.pinned)...) {
		want, got := map[string]string{}, map[string]string{}
		for key, value := range p.states[x.Revision] {
			if key[:3] == x.Prefix {
				want[key] = value
			}
		}
		list, err := p.s.Range(p.t.Context(), kv.RangeRequest{Start: x.Prefix, End: kv.PrefixEnd(x.Prefix), At: x.Revision})
		if err != nil {
			p.t.Fatal(err)
		}
		for _, e := range list.Entries {
			got[e.Key] = plain(e.Value)
		}
		if diff := cmp.Diff(want, got); diff != "" || list.Count != int64(len(want)) {
			p.t.Fatalf("%s at revision %d has %d keys (-want +got):\n%s", x.Prefix, x.Revision, list.Count, diff)
		}
		for i := range 4 {
			key := fmt.Sprint(x.Prefix, i)
			e, _, err := p.s.Get(p.t.Context(), key, x.Revision)
			if err != nil {
				p.t.Fatal(err)
			}
			if value, exists := want[key]; exists != (e != nil) || exists && value != plain(e.Value) {
				p.t.Fatalf("%s at revision %d is %+v, want %q", key, x.Revision, e, value)
			}
		}
	}
}

func pinsOf(pins map[string]kv.Pin) (list []kv.Pin) {
	for _, x := range pins {
		list = append(list, x)
	}
	return list
}

// TestPinModel checks pinned states after random writes, compactions and restarts, and that all old
// versions are deleted after the last pin was removed.
func TestPinModel(t *testing.T) {
	t.Parallel()
	seeds := uint64(8)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := &pinTest{
				t: t, dir: dir, s: open(t, Config{Dir: dir, Retention: -1}), random: rand.New(rand.NewPCG(seed, 7)),
				states: map[kv.Revision]map[string]string{}, pinned: map[string]kv.Pin{},
			}
			p.write()
			for range 400 {
				switch n := p.random.IntN(40); {
				case n < 28:
					p.write()
				case n < 32:
					p.pin()
				case n < 36:
					p.unpin()
				case n < 37:
					compactStore(t, p.s)
				case n < 38:
					p.rewrite()
				case n < 39:
					p.restore()
				default:
					p.reopen()
				}
				p.check()
			}
			for len(p.pinned) > 0 {
				p.unpin()
			}
			compactStore(t, p.s)
			p.write() // the history of the last commit remains
			compactStore(t, p.s)
			if err := p.s.sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			live := len(p.states[p.newest()])
			if err := p.s.Close(); err != nil {
				t.Fatal(err)
			}
			report, err := Check(t.Context(), p.dir, nil)
			if err != nil || report.Retained != 0 || report.Versions > int64(live)+2 {
				t.Errorf("%+v with %d keys, %v", report, live, err)
			}
		})
	}
}

// compactStore compacts the store to its newest revision.
func compactStore(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Compact(t.Context(), kv.Revision(s.published.Load())); err != nil {
		t.Fatal(err)
	}
}

// TestPinErrors checks the errors of invalid pins and of reads that no pin covers.
func TestPinErrors(t *testing.T) {
	t.Parallel()
	s := open(t, Config{InMemory: true, Retention: -1})
	for i := range 3 {
		commitOp(t, s, kv.Op{Key: "/a/x", Value: fmt.Append(nil, i), Expect: kv.AnyRevision})
	}
	if err := s.Pin(t.Context(), "o", "/a/", 3); err != nil {
		t.Fatal(err)
	}
	compactStore(t, s)
	newest := kv.Revision(s.published.Load())
	for name, tt := range map[string]struct {
		do   func() error
		want error
	}{
		"compacted":      {func() error { return s.Pin(t.Context(), "o", "/a/", 2) }, kv.ErrCompacted},
		"other prefix":   {func() error { return s.Pin(t.Context(), "o", "/b/", 3) }, kv.ErrCompacted},
		"future":         {func() error { return s.Pin(t.Context(), "o", "/a/", newest+1) }, kv.ErrFutureRevision},
		"again":          {func() error { return s.Pin(t.Context(), "o", "/a/", 3) }, nil},
		"below":          {func() error { return s.Pin(t.Context(), "p", "/a/b/", 3) }, nil},
		"wider range":    {func() error { return rangeError(t.Context(), s, "/", "/b/", 3) }, kv.ErrCompacted},
		"endless range":  {func() error { return rangeError(t.Context(), s, "/a/", "", 3) }, kv.ErrCompacted},
		"other revision": {func() error { return rangeError(t.Context(), s, "/a/", "/a0", 2) }, kv.ErrCompacted},
		"range":          {func() error { return rangeError(t.Context(), s, "/a/", "/a0", 3) }, nil},
		"unpin nothing":  {func() error { return s.Unpin(t.Context(), "other") }, nil},
	} {
		if err := tt.do(); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	for _, invalid := range []kv.Pin{{Prefix: "/a", Owner: "o"}, {Prefix: "/a/"}, {Prefix: "/a\x00/", Owner: "o"}} {
		if err := s.Pin(t.Context(), invalid.Owner, invalid.Prefix, 3); err == nil {
			t.Errorf("%+v was accepted", invalid)
		}
	}
	pins, err := s.Pins(t.Context())
	if diff := cmp.Diff([]kv.Pin{{Revision: 3, Prefix: "/a/", Owner: "o"}, {Revision: 3, Prefix: "/a/b/", Owner: "p"}}, pins); diff != "" || err != nil {
		t.Errorf("pins %s, %v", diff, err)
	}
	if err := s.Unpin(t.Context(), "o"); err != nil {
		t.Fatal(err)
	}
	if err := rangeError(t.Context(), s, "/a/", "/a0", 3); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("after Unpin: %v", err)
	}
}

// TestRewriteError checks that RewriteOlder returns an error of its function, and that the error does not
// affect the store.
func TestRewriteError(t *testing.T) {
	t.Parallel()
	s := open(t, Config{InMemory: true, Retention: -1})
	commitOp(t, s, kv.Op{Key: "/a/x", Value: []byte("1"), Expect: kv.AnyRevision})
	if err := s.Pin(t.Context(), "o", "/a/", kv.Revision(s.published.Load())); err != nil {
		t.Fatal(err)
	}
	commitOp(t, s, kv.Op{Key: "/a/x", Value: []byte("2"), Expect: kv.AnyRevision})
	want := errors.New("the key service does not respond")
	err := s.RewriteOlder(t.Context(), func(*kv.Entry) ([]byte, error) { return nil, want })
	if !errors.Is(err, want) || errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, want)
	}
	if err := s.Health(t.Context()); err != nil {
		t.Errorf("health: %v", err)
	}
}

func rangeError(ctx context.Context, s *Store, start, end string, at kv.Revision) error {
	_, err := s.Range(ctx, kv.RangeRequest{Start: start, End: end, At: at})
	return err
}

func commitOp(t *testing.T, s *Store, op kv.Op) {
	t.Helper()
	if _, err := s.Commit(t.Context(), op); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedSnapshotOfPins checks that damage to a snapshot with pins is detected.
func TestDamagedSnapshotOfPins(t *testing.T) {
	t.Parallel()
	s := open(t, Config{InMemory: true, Retention: -1})
	commitOp(t, s, kv.Op{Key: "/a/x", Value: []byte("1")})
	if err := s.Pin(t.Context(), "owner", "/a/", kv.Revision(s.published.Load())); err != nil {
		t.Fatal(err)
	}
	commitOp(t, s, kv.Op{Key: "/a/x", Kind: kv.OpDelete, Expect: kv.AnyRevision})
	commitOp(t, s, kv.Op{Key: "/b", Value: []byte("1")})
	var snapshot bytes.Buffer
	if _, err := s.Snapshot(t.Context(), &snapshot); err != nil {
		t.Fatal(err)
	}
	checkDamaged(t, snapshot.Bytes(), 4) // the pin, the deletion, and two versions
}

// hookContext calls a function at the first call of Done.
type hookContext struct {
	context.Context
	hook func()
}

func (c *hookContext) Done() <-chan struct{} {
	if hook := c.hook; hook != nil {
		c.hook = nil
		hook()
	}
	return c.Context.Done()
}

// TestSnapshotDuringPin checks that a snapshot is valid if a newer revision is pinned after the revision of
// the snapshot was determined.
func TestSnapshotDuringPin(t *testing.T) {
	t.Parallel()
	s, err := Open(Config{InMemory: true, Retention: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	commit := func() kv.Revision {
		res, err := s.Commit(t.Context(), kv.Op{Key: "/a/x", Expect: kv.AnyRevision})
		if err != nil {
			t.Error(err)
		}
		return res.Revision
	}
	at := commit()
	s.history.Lock() // prevents compactions during the hook, which runs while s.holds is locked
	defer s.history.Unlock()
	ctx := &hookContext{Context: t.Context(), hook: func() {
		x := kv.Pin{Revision: commit(), Prefix: "/a/", Owner: "o"}
		if err := s.writePins(PinSet{x}, func(b *pebble.Batch) { _ = b.Set(pinKey(x), nil, nil) }); err != nil {
			t.Error(err)
		}
	}}
	var snapshot bytes.Buffer
	if rev, err := s.Snapshot(ctx, &snapshot); err != nil || rev != at {
		t.Fatalf("snapshot of revision %d, error %v; want revision %d", rev, err, at)
	}
	if info, err := ReadSnapshot(&snapshot, SnapshotReader{}); err != nil || info.Keys != 1 {
		t.Errorf("%d keys in the snapshot, error %v; want 1 key", info.Keys, err)
	}
}

// TestSnapshotDuringUnpin checks that a snapshot contains all versions of its pins, although the pins are
// removed while the snapshot is written, and that these versions are deleted afterwards.
func TestSnapshotDuringUnpin(t *testing.T) {
	t.Parallel()
	s := open(t, Config{InMemory: true, Retention: -1})
	put(t, s, "/a/compacted", "old")
	put(t, s, "/a/replaced", "old")
	put(t, s, "/a/deleted", "old")
	pinned := kv.Revision(s.published.Load())
	if err := s.Pin(t.Context(), "o", "/a/", pinned); err != nil {
		t.Fatal(err)
	}
	put(t, s, "/a/compacted", "new")
	put(t, s, "/b", "1")
	compactStore(t, s)
	put(t, s, "/a/replaced", "new")
	commitOp(t, s, kv.Op{Key: "/a/deleted", Kind: kv.OpDelete, Expect: kv.AnyRevision})
	put(t, s, "/b", "2")
	want := valuesAt(t, s, pinned)
	var snapshot bytes.Buffer
	w := &hookWriter{w: &snapshot, meddle: sync.OnceFunc(func() {
		if err := s.Unpin(t.Context(), "o"); err != nil {
			t.Error(err)
		}
		compactStore(t, s)
		if err := s.sweep(t.Context()); err != nil {
			t.Error(err)
		}
	})}
	if _, err := s.Snapshot(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := Restore(&snapshot, dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, valuesAt(t, open(t, Config{Dir: dir, Retention: -1}), pinned)); diff != "" || len(want) != 3 {
		t.Errorf("the pinned state in the snapshot (-want +got):\n%s", diff)
	}
	if err := s.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	e, err := s.acquireEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer s.release()
	if retained, err := e.hasRetained(); retained || err != nil {
		t.Errorf("versions are retained after the snapshot: %t, %v", retained, err)
	}
}
