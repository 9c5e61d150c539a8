package kvtest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// model is the reference implementation of a backend.
type model struct {
	rev       kv.Revision
	compacted kv.Revision
	// wanted is the newest revision requested for compaction. held contains the holds, whose
	// revisions must not be compacted.
	wanted kv.Revision
	held   []modelHold
	// states contains the entries at the revision of each commit, oldest first.
	states []modelState
	events []kv.Event
}

type modelHold struct {
	at      kv.Revision
	release func()
}

type modelState struct {
	rev     kv.Revision
	entries map[string]kv.Entry
}

func (m *model) at(rev kv.Revision) map[string]kv.Entry {
	for i := len(m.states) - 1; i >= 0; i-- {
		if m.states[i].rev <= rev {
			return m.states[i].entries
		}
	}
	return nil
}

// decide reports whether a transaction's conditions are met and whether it writes.
func (m *model) decide(ops []kv.Op) (holds, writes bool, current []*kv.Entry) {
	now := m.at(m.rev)
	holds = true
	for _, op := range ops {
		e, ok := now[op.Key]
		if ok {
			current = append(current, &e)
		} else {
			current = append(current, nil)
		}
		if op.Expect != kv.AnyRevision && op.Expect != e.Modified {
			holds = false
		}
		if op.Kind == kv.OpPut || op.Kind == kv.OpDelete && ok {
			writes = true
		}
	}
	return holds, writes, current
}

// apply applies a committed transaction at the revision that the backend assigned.
func (m *model) apply(ops []kv.Op, rev kv.Revision) {
	next := maps.Clone(m.at(m.rev))
	for _, op := range ops {
		was, ok := next[op.Key]
		var prev *kv.Entry
		if ok {
			prev = &was
		}
		switch {
		case op.Kind == kv.OpPut:
			e := kv.Entry{Key: op.Key, Value: op.Value, Created: rev, Modified: rev}
			if ok {
				e.Created = was.Created
			}
			next[op.Key] = e
			m.events = append(m.events, kv.Event{Key: op.Key, Revision: rev, Value: op.Value, Created: e.Created, Prev: prev})
		case op.Kind == kv.OpDelete && ok:
			delete(next, op.Key)
			m.events = append(m.events, kv.Event{Key: op.Key, Revision: rev, Deleted: true, Prev: prev})
		}
	}
	m.rev = rev
	m.states = append(m.states, modelState{rev: rev, entries: next})
}

// modelTest is one run of random operations.
type modelTest struct {
	*testing.T
	rng     *rand.Rand
	b       kv.Backend
	m       model
	watches []*modelWatch
}

type modelWatch struct {
	*watching
	// checked is the number of events of the watch that were compared with the model, and seen is the number
	// of events in the model at the time of the last comparison.
	checked, seen int
}

const (
	// modelChunk is the maximum number of operations per store. The model stores all states of one store.
	modelChunk = 10_000
	// modelOperations is the number of operations if KVTEST_OPERATIONS is not set. The rarest operations then
	// happen about 30 times.
	modelOperations = 3_000
	shortOperations = 1_000
)

// testModel performs random operations in chunks, each with its own store and seed. KVTEST_OPERATIONS sets
// the number of operations. KVTEST_SEED is the seed of the first chunk.
func testModel(t *testing.T, open func(t *testing.T) kv.Backend) {
	operations := int64(modelOperations)
	if testing.Short() {
		operations = shortOperations
	}
	operations = environment(t, "KVTEST_OPERATIONS", operations)
	seed := environment(t, "KVTEST_SEED", time.Now().UnixNano())
	for ; operations > 0; operations -= modelChunk {
		passed := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			b := open(t)
			defer b.Close()
			runModel(t, b, uint64(seed), int(min(operations, modelChunk)))
		})
		if !passed {
			return
		}
		seed++
	}
}

// environment returns the number in an environment variable, or fallback if the variable is not set.
func environment(t *testing.T, name string, fallback int64) int64 {
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func runModel(t *testing.T, b kv.Backend, seed uint64, operations int) {
	first := current(t, b)
	mt := &modelTest{T: t, rng: rand.New(rand.NewPCG(seed, 0)), b: b}
	mt.m.rev = first
	mt.m.states = []modelState{{rev: first, entries: map[string]kv.Entry{}}}
	for range operations {
		mt.step()
	}
	mt.drain()
	mt.rangeAt(0)
}

func (mt *modelTest) step() {
	switch n := mt.rng.IntN(100); {
	case n < 60:
		mt.commit()
	case n < 75:
		mt.get()
	case n < 88:
		mt.rangeAt(mt.revision())
	case n < 93:
		mt.watch()
	case n < 97:
		mt.drain()
	case n < 98:
		mt.compact()
	case n < 99:
		mt.hold()
	default:
		if len(mt.watches) > 0 {
			i := mt.rng.IntN(len(mt.watches))
			mt.watches[i].w.Stop()
			mt.watches = slices.Delete(mt.watches, i, i+1)
		}
	}
}

func (mt *modelTest) key() string {
	return fmt.Sprintf("%c/%d", 'a'+mt.rng.IntN(3), mt.rng.IntN(8))
}

// revision returns a random revision, which may be compacted or in the future.
func (mt *modelTest) revision() kv.Revision {
	switch mt.rng.IntN(4) {
	case 0:
		return 0
	case 1:
		return max(1, mt.m.rev-kv.Revision(mt.rng.IntN(5)))
	case 2:
		return mt.m.rev + kv.Revision(mt.rng.IntN(3))
	default:
		return max(1, mt.m.states[mt.rng.IntN(len(mt.m.states))].rev)
	}
}

func (mt *modelTest) commit() {
	mt.Helper()
	var ops []kv.Op
	now := mt.m.at(mt.m.rev)
	for range 1 + mt.rng.IntN(4) {
		op := kv.Op{Key: mt.key(), Kind: kv.OpKind(mt.rng.IntN(3))}
		if slices.ContainsFunc(ops, func(o kv.Op) bool { return o.Key == op.Key }) {
			continue
		}
		if op.Kind == kv.OpPut {
			op.Value = []byte(fmt.Sprintf("%0*d", 1+mt.rng.IntN(300), mt.rng.IntN(1000)))
		}
		switch op.Expect = now[op.Key].Modified; mt.rng.IntN(8) {
		case 0:
			op.Expect = mt.m.rev
		case 1, 2, 3:
			op.Expect = kv.AnyRevision
		}
		ops = append(ops, op)
	}
	holds, writes, current := mt.m.decide(ops)
	res := tryCommit(mt.T, mt.b, ops...)
	if res.Committed != holds {
		mt.Fatalf("commit %+v: %+v, want committed %t", ops, res, holds)
	}
	switch {
	case !holds:
		diff(mt.T, "current", res.Current, current)
		fallthrough
	case !writes:
		if res.Revision != mt.m.rev {
			mt.Fatalf("a commit without writes has revision %d, the newest revision is %d", res.Revision, mt.m.rev)
		}
	default:
		if res.Revision <= mt.m.rev {
			mt.Fatalf("revision %d after %d", res.Revision, mt.m.rev)
		}
		mt.m.apply(ops, res.Revision)
	}
}

// refused checks the error of a read at a revision, and reports whether the read failed.
func (mt *modelTest) refused(at kv.Revision, err error) bool {
	mt.Helper()
	switch {
	case at > mt.m.rev:
		if !errors.Is(err, kv.ErrFutureRevision) {
			mt.Fatalf("read at %d, the newest revision is %d: %v", at, mt.m.rev, err)
		}
		return true
	case at != 0 && at < mt.m.compacted:
		if !errors.Is(err, kv.ErrCompacted) {
			mt.Fatalf("read at %d, compacted at %d: %v", at, mt.m.compacted, err)
		}
		return true
	case err != nil:
		mt.Fatalf("read at %d: %v", at, err)
	}
	return false
}

func (mt *modelTest) state(at kv.Revision) map[string]kv.Entry {
	if at == 0 {
		at = mt.m.rev
	}
	return mt.m.at(at)
}

func (mt *modelTest) get() {
	mt.Helper()
	key, at := mt.key(), mt.revision()
	got, _, err := mt.b.Get(mt.Context(), key, at)
	if mt.refused(at, err) {
		return
	}
	var want *kv.Entry
	if e, ok := mt.state(at)[key]; ok {
		want = &e
	}
	diff(mt.T, fmt.Sprintf("get %q at %d", key, at), got, want)
}

func (mt *modelTest) rangeAt(at kv.Revision) {
	mt.Helper()
	req := kv.RangeRequest{At: at, Limit: mt.rng.IntN(6), CountOnly: mt.rng.IntN(5) == 0, WithCount: mt.rng.IntN(2) == 0}
	req.Start, req.End = mt.span()
	got, err := mt.b.Range(mt.Context(), req)
	if mt.refused(at, err) {
		return
	}
	state := mt.state(at)
	want := kv.RangeResult{Revision: at}
	if at == 0 {
		want.Revision = mt.m.rev
	}
	for _, key := range slices.Sorted(maps.Keys(state)) {
		if key < req.Start || req.End != "" && key >= req.End {
			continue
		}
		want.Count++
		switch {
		case req.CountOnly:
		case req.Limit > 0 && len(want.Entries) == req.Limit:
			want.More = true
		default:
			want.Entries = append(want.Entries, state[key])
		}
	}
	if len(got.Entries) == 0 {
		got.Entries = nil
	}
	if req.CountOnly {
		got.More = want.More
	}
	if got.Count == 0 && want.More && !req.WithCount {
		got.Count = want.Count
	}
	diff(mt.T, fmt.Sprintf("range %+v", req), got, want)
}

func (mt *modelTest) span() (start, end string) {
	switch mt.rng.IntN(4) {
	case 0:
		return "", ""
	case 1:
		start = fmt.Sprintf("%c/", 'a'+mt.rng.IntN(3))
		return start, kv.PrefixEnd(start)
	case 2:
		start = mt.key()
		return start, start + "\x00"
	default:
		return mt.key(), mt.key()
	}
}

func (mt *modelTest) watch() {
	mt.Helper()
	if len(mt.watches) > 8 {
		return
	}
	from := max(mt.m.compacted, mt.m.states[0].rev+1, mt.revision())
	start, end := mt.span()
	mt.watches = append(mt.watches, &modelWatch{watching: watch(mt.T, mt.b, start, end, from)})
}

// drain compares the events of the watches with the model.
func (mt *modelTest) drain() {
	mt.Helper()
	if err := mt.b.RequestProgress(mt.Context()); err != nil {
		mt.Fatalf("request progress: %v", err)
	}
	for _, w := range mt.watches {
		if w.from > mt.m.rev {
			continue
		}
		all := w.until(mt.m.rev)
		got, want := plain(all[w.checked:]), []kv.Event{}
		for _, ev := range mt.m.events[w.seen:] {
			if ev.Revision >= w.from && ev.Key >= w.start && (w.end == "" || ev.Key < w.end) {
				want = append(want, ev)
			}
		}
		diff(mt.T, fmt.Sprintf("watch of [%q, %q) from %d, after %d events", w.start, w.end, w.from, w.checked), got, want)
		w.checked, w.seen = len(all), len(mt.m.events)
	}
}

func (mt *modelTest) compact() {
	mt.Helper()
	// Drain the watches first, because a slow watch may lose its history.
	mt.drain()
	at := mt.m.states[mt.rng.IntN(len(mt.m.states))].rev
	if at < 1 || at <= mt.m.compacted {
		return
	}
	mt.compactTo(at)
}

func (mt *modelTest) compactTo(at kv.Revision) {
	mt.Helper()
	compact(mt.T, mt.b, at)
	mt.m.wanted = max(mt.m.wanted, at)
	to := mt.m.wanted
	for _, h := range mt.m.held {
		to = min(to, h.at)
	}
	mt.m.compacted = max(mt.m.compacted, to)
}

// hold holds a random revision, which might not be readable, or releases a hold.
func (mt *modelTest) hold() {
	mt.Helper()
	if n := len(mt.m.held); n > 3 || n > 0 && mt.rng.IntN(2) == 0 {
		mt.drain()
		i := mt.rng.IntN(n)
		mt.m.held[i].release()
		mt.m.held = slices.Delete(mt.m.held, i, i+1)
		mt.compactTo(mt.m.wanted) // the backend compacts soon after the release
		return
	}
	at := mt.revision()
	held, release, err := mt.b.Hold(mt.Context(), at)
	if mt.refused(at, err) {
		return
	}
	if at == 0 {
		at = mt.m.rev
	}
	if held != at {
		mt.Fatalf("hold %d: revision %d is held", at, held)
	}
	mt.m.held = append(mt.m.held, modelHold{at, release})
}
