package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// journal records the attempted and the acknowledged values of a writer's keys.
type journal struct {
	mu    sync.Mutex
	tried map[string]int // the last attempted value
	acked map[string]acked
}

type acked struct {
	value    int
	revision kv.Revision
}

func newJournal() *journal { return &journal{tried: map[string]int{}, acked: map[string]acked{}} }

// write puts the next value of a key and records the result.
func (j *journal) write(t *testing.T, s *Store, key string, size int) error {
	j.mu.Lock()
	j.tried[key]++
	n := j.tried[key]
	j.mu.Unlock()
	value := fmt.Sprintf("%d:%s", n, strings.Repeat("x", size))
	res, err := s.Commit(t.Context(), kv.Op{Key: key, Value: []byte(value), Expect: kv.AnyRevision})
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.acked[key] = acked{n, res.Revision}
	return nil
}

func (j *journal) copy() map[string]acked {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make(map[string]acked, len(j.acked))
	for k, v := range j.acked {
		out[k] = v
	}
	return out
}

// check compares a store with the values that were acknowledged before the store was copied.
func (j *journal) check(t *testing.T, s *Store, had map[string]acked) {
	t.Helper()
	for key, a := range had {
		e, _, err := s.Get(t.Context(), key, 0)
		if err != nil {
			t.Fatalf("get %s: %v", key, err)
		}
		if e == nil || e.Modified < a.revision {
			t.Fatalf("%s is %v, acknowledged was value %d at revision %d", key, e, a.value, a.revision)
		}
	}
	res, err := s.Range(t.Context(), kv.RangeRequest{})
	if err != nil {
		t.Fatalf("range: %v", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range res.Entries {
		var n int
		if _, err := fmt.Sscanf(string(e.Value), "%d:", &n); err != nil || n < had[e.Key].value || n > j.tried[e.Key] {
			t.Fatalf("%s has value %.20q (%v), acknowledged was %d, attempted %d", e.Key, e.Value, err, had[e.Key].value, j.tried[e.Key])
		}
	}
}

// TestCrash simulates power failures during concurrent writes. It copies the disk in the state after each
// power failure, and opens the copies.
func TestCrash(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	mem := vfs.NewCrashableMem()
	s := open(t, Config{Dir: "d", FS: mem, Retention: 50 * time.Millisecond})
	j := newJournal()
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				if err := j.write(t, s, fmt.Sprintf("w%d/%d", i, n%20), 4000); err != nil {
					t.Errorf("commit: %v", err)
					return
				}
			}
		})
	}
	rounds := 30
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		time.Sleep(time.Duration(rng.IntN(40)) * time.Millisecond)
		had := j.copy()
		disk := mem.CrashClone(vfs.CrashCloneCfg{
			UnsyncedDataPercent: []int{0, 50, 100}[rng.IntN(3)],
			RNG:                 rand.New(rand.NewPCG(rng.Uint64(), 0)),
		})
		survivor := open(t, Config{Dir: "d", FS: disk})
		j.check(t, survivor, had)
		checkHistory(t, survivor)
		if _, err := survivor.Commit(t.Context(), kv.Op{Key: "after"}); err != nil {
			t.Fatalf("commit after a crash: %v", err)
		}
		if err := survivor.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	stop.Store(true)
	wg.Wait()
}

// checkHistory watches from the oldest available revision, and checks that the accumulated events
// match the stored entries.
func checkHistory(t *testing.T, s *Store) {
	t.Helper()
	oldest := max(kv.Revision(s.compacted.Load()), 1)
	base, err := s.Range(t.Context(), kv.RangeRequest{At: oldest})
	if err != nil {
		t.Fatalf("range at %d: %v", oldest, err)
	}
	state := map[string]kv.Revision{}
	for _, e := range base.Entries {
		state[e.Key] = e.Modified
	}
	newest := kv.Revision(s.published.Load())
	w, err := s.Watch(t.Context(), "", "", oldest+1)
	if err != nil {
		t.Fatalf("watch from %d: %v", oldest+1, err)
	}
	defer w.Stop()
	for at := oldest; at < newest; {
		b, ok := <-w.Batches()
		if !ok {
			t.Fatalf("the watch ended: %v", w.Err())
		}
		for _, ev := range b.Events {
			prev := kv.Revision(0)
			if ev.Prev != nil {
				prev = ev.Prev.Modified
			}
			if state[ev.Key] != prev {
				t.Fatalf("the event of %s at %d replaces revision %d, it was %d", ev.Key, ev.Revision, prev, state[ev.Key])
			}
			state[ev.Key] = ev.Revision
			if ev.Deleted {
				delete(state, ev.Key)
			}
		}
		at = b.Revision
	}
	res, err := s.Range(t.Context(), kv.RangeRequest{At: newest})
	if err != nil || len(res.Entries) != len(state) {
		t.Fatalf("%d entries (%v), the events add up to %d", len(res.Entries), err, len(state))
	}
	for _, e := range res.Entries {
		if state[e.Key] != e.Modified {
			t.Fatalf("%s has revision %d, its last event has %d", e.Key, e.Modified, state[e.Key])
		}
	}
}

// stride returns n, so that a test interrupts the store at every n-th disk operation. n is 1, or 5 with
// -short.
func stride() int {
	if testing.Short() {
		return 5
	}
	return 1
}

// TestCrashAtEveryWrite simulates a power failure before each disk operation, starting with the creation
// of the store.
func TestCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	j := newJournal()
	type cut struct {
		disk *vfs.MemFS
		had  map[string]acked
	}
	var mu sync.Mutex
	var cuts []cut
	var recording atomic.Bool
	recording.Store(true)
	record := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !recording.Load() || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		had := j.copy()
		cuts = append(cuts, cut{mem.CrashClone(vfs.CrashCloneCfg{}), had})
		if len(cuts)%2 == 0 {
			cuts = append(cuts, cut{mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))}), had})
		}
		return nil
	})
	s := open(t, Config{Dir: "d", FS: errorfs.Wrap(mem, record), Retention: -1})
	for i := range 40 {
		if err := j.write(t, s, fmt.Sprintf("k%d", i%7), 10_000); err != nil {
			t.Fatalf("commit: %v", err)
		}
		if i == 20 {
			if err := s.Compact(t.Context(), kv.Revision(s.published.Load())); err != nil {
				t.Fatalf("compact: %v", err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	recording.Store(false)
	t.Logf("%d crashes", len(cuts))
	for i := 0; i < len(cuts); i += stride() {
		c := cuts[i]
		survivor, err := Open(Config{Dir: "d", FS: c.disk, Retention: -1})
		if err != nil {
			t.Fatalf("crash %d: %v", i, err)
		}
		j.check(t, survivor, c.had)
		checkHistory(t, survivor)
		if err := survivor.Close(); err != nil {
			t.Fatalf("crash %d: close: %v", i, err)
		}
	}
}

// faults makes the disk writes that fails selects return err, while err is set.
type faults struct {
	err   atomic.Pointer[error]
	fails func(errorfs.Op) bool
	hits  atomic.Int64
}

func (f *faults) inject(op errorfs.Op) error {
	err := f.err.Load()
	if err == nil || op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpLock {
		return nil
	}
	if !f.fails(op) && !strings.HasSuffix(op.Path, "PROBE") {
		return nil
	}
	f.hits.Add(1)
	return *err
}

func (f *faults) begin(err error) { f.err.Store(&err) }
func (f *faults) end()            { f.err.Store(nil) }

func TestWriteErrors(t *testing.T) {
	t.Parallel()
	file := func(suffix string, kinds ...errorfs.OpKind) func(errorfs.Op) bool {
		return func(op errorfs.Op) bool {
			if !strings.Contains(op.Path, suffix) {
				return false
			}
			for _, k := range kinds {
				if k == op.Kind {
					return true
				}
			}
			return len(kinds) == 0
		}
	}
	full := fmt.Errorf("write: %w", syscall.ENOSPC)
	broken := fmt.Errorf("write: %w", syscall.EIO)
	for _, c := range []struct {
		name  string
		err   error
		fails func(errorfs.Op) bool
	}{
		{"FullLogWrite", full, file(".log", errorfs.OpFileWrite)},
		{"FullLogCreate", full, file(".log", errorfs.OpCreate, errorfs.OpReuseForWrite)},
		{"FullLogSync", full, file(".log", errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo)},
		{"FullTable", full, file(".sst")},
		{"FullManifest", full, file("MANIFEST")},
		{"FullEverything", full, file("")},
		{"BrokenLogSync", broken, file(".log", errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo)},
		{"BrokenLogWrite", broken, file(".log", errorfs.OpFileWrite)},
		{"BrokenManifestSync", broken, file("MANIFEST", errorfs.OpFileSync)},
		{"BrokenTable", broken, file(".sst", errorfs.OpFileWrite)},
		{"BrokenDirectory", broken, func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileSync && !strings.Contains(op.Path, ".") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testWriteErrors(t, c.err, c.fails)
		})
	}
}

func testWriteErrors(t *testing.T, cause error, fails func(errorfs.Op) bool) {
	mem := vfs.NewCrashableMem()
	f := &faults{fails: fails}
	s := open(t, Config{Dir: "d", FS: errorfs.Wrap(mem, errorfs.InjectorFunc(f.inject))})
	j := newJournal()
	w, err := s.Watch(t.Context(), "", "", 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := j.write(t, s, fmt.Sprintf("before/%d", i), 1000); err != nil {
			t.Fatalf("commit: %v", err)
		}
	}
	f.begin(cause)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				err := j.write(t, s, fmt.Sprintf("during/%d/%d", i, n%50), 50_000)
				if err == nil {
					continue
				}
				if !errors.Is(err, kv.ErrUnavailable) && !errors.Is(err, kv.ErrNoSpace) {
					t.Errorf("commit: %v", err)
				}
				return
			}
		})
	}
	wg.Wait()
	// Finally, writes are rejected without reaching the disk. On a full disk, the store reopens once before
	// that, and the outcome of a write to the reopened store may be unknown.
	want := kv.ErrUnavailable
	if errors.Is(cause, syscall.ENOSPC) {
		want = kv.ErrNoSpace
	}
	await(t, "rejection", func() bool {
		err := j.write(t, s, "rejected", 10)
		if err != nil && !errors.Is(err, want) && !errors.Is(err, kv.ErrUnavailable) {
			t.Fatalf("commit: %v, want %v", err, want)
		}
		return errors.Is(err, want)
	})
	if err := s.Health(t.Context()); !errors.Is(err, want) {
		t.Errorf("health: %v, want %v", err, want)
	}
	j.check(t, s, j.copy())
	// A crash at this point loses no acknowledged write.
	had := j.copy()
	survivor := open(t, Config{Dir: "d", FS: mem.CrashClone(vfs.CrashCloneCfg{})})
	j.check(t, survivor, had)
	if f.hits.Load() == 0 {
		t.Fatal("no operation failed")
	}
	f.end()
	await(t, "recovery", func() bool { return s.Health(t.Context()) == nil })
	for i := range 20 {
		if err := j.write(t, s, fmt.Sprintf("after/%d", i), 1000); err != nil {
			t.Fatalf("commit after recovery: %v", err)
		}
	}
	j.check(t, s, j.copy())
	checkHistory(t, s)
	checkComplete(t, w, kv.Revision(s.published.Load()))
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// checkComplete checks that a watch delivers every revision from 2 up to the newest exactly once.
func checkComplete(t *testing.T, w kv.Watch, newest kv.Revision) {
	t.Helper()
	for next := kv.Revision(2); next <= newest; {
		b, ok := <-w.Batches()
		if !ok {
			t.Fatalf("the watch ended at revision %d: %v", next, w.Err())
		}
		for _, ev := range b.Events {
			if ev.Revision != next {
				t.Fatalf("event of revision %d, want %d", ev.Revision, next)
			}
			next++
		}
	}
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

// TestCloseWhileBroken checks that Close returns while disk writes fail.
func TestCloseWhileBroken(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{".log", ".sst", ""} {
		t.Run("file"+suffix, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewCrashableMem()
			f := &faults{fails: func(op errorfs.Op) bool { return strings.Contains(op.Path, suffix) }}
			s := open(t, Config{Dir: "d", FS: errorfs.Wrap(mem, errorfs.InjectorFunc(f.inject))})
			j := newJournal()
			if err := j.write(t, s, "a", 10); err != nil {
				t.Fatal(err)
			}
			f.begin(syscall.ENOSPC)
			for n := 0; ; n++ {
				if err := j.write(t, s, fmt.Sprint(n%10), 100_000); err != nil {
					break
				}
			}
			if err := s.Close(); err != nil {
				t.Logf("close: %v", err)
			}
			f.end()
			survivor := open(t, Config{Dir: "d", FS: mem})
			j.check(t, survivor, j.copy())
		})
	}
}

// TestErrorsWhileOpening opens stores, and each time makes a different disk write fail, either only this
// write or also all later ones. Opening may then fail, but all acknowledged writes must exist after the disk
// has recovered.
func TestErrorsWhileOpening(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	j := newJournal()
	s := open(t, Config{Dir: "d", FS: mem})
	for i := range 60 {
		if err := j.write(t, s, fmt.Sprintf("k%d", i%9), 20_000); err != nil {
			t.Fatal(err)
		}
	}
	crashed := func() *vfs.MemFS { return mem.CrashClone(vfs.CrashCloneCfg{}) }
	for what, disk := range map[string]func() *vfs.MemFS{"new": vfs.NewCrashableMem, "restored": vfs.NewCrashableMem, "crashed": crashed} {
		for _, lasting := range []bool{false, true} {
			had := map[string]acked{}
			switch what {
			case "crashed":
				had = j.copy()
			case "restored":
				had = nil
			}
			for i, failed := int64(0), true; failed; i += int64(stride()) {
				failed = testErrorWhileOpening(t, j, had, disk(), i, lasting)
				if t.Failed() {
					t.Fatalf("%s store, operation %d, lasting %t", what, i, lasting)
				}
			}
		}
	}
}

// testErrorWhileOpening makes write i fail, counted from 0, and all later writes if lasting is set. It
// reports whether write i was performed.
func testErrorWhileOpening(t *testing.T, j *journal, had map[string]acked, disk *vfs.MemFS, i int64, lasting bool) bool {
	var n atomic.Int64
	var opened atomic.Bool
	inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || opened.Load() {
			return nil
		}
		if at := n.Add(1) - 1; at == i || lasting && at > i {
			return syscall.ENOSPC
		}
		return nil
	})
	faulty := errorfs.Wrap(disk, inject)
	if had == nil {
		testErrorWhileRestoring(t, faulty, disk, &opened)
		return n.Load() > i && !t.Failed()
	}
	s, err := Open(Config{Dir: "d", FS: faulty})
	opened.Store(true)
	if err == nil {
		j.check(t, s, had)
		if err := s.Close(); err != nil {
			t.Logf("close: %v", err)
		}
	}
	s, err = Open(Config{Dir: "d", FS: disk.CrashClone(vfs.CrashCloneCfg{})})
	if err != nil {
		t.Errorf("open on an intact disk: %v", err)
		return false
	}
	j.check(t, s, had)
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	return n.Load() > i
}

// testErrorWhileRestoring restores a snapshot onto a faulty disk. The store must then be complete or, if the
// restore failed, empty or rejected by Open.
func testErrorWhileRestoring(t *testing.T, faulty vfs.FS, disk *vfs.MemFS, done *atomic.Bool) {
	raw := smallSnapshot(t)
	failed := restore(bytes.NewReader(raw), Config{Dir: "d", FS: faulty})
	done.Store(true)
	after := disk.CrashClone(vfs.CrashCloneCfg{})
	s, err := Open(Config{Dir: "d", FS: after})
	if err == nil {
		n := len(entries(t, s, 0).Entries)
		if n != 3 && (failed == nil || n != 0) {
			t.Errorf("restore: %v, then %d entries of 3", failed, n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	if failed == nil {
		t.Errorf("open of the restored store: %v", err)
	}
	if err := restore(bytes.NewReader(raw), Config{Dir: "d", FS: after}); err != nil {
		t.Errorf("restore again: %v", err)
	}
}

// TestStaleGroup checks that a group fails if the store was reopened before the group was written, because its
// batch belongs to the replaced engine.
func TestStaleGroup(t *testing.T) {
	t.Parallel()
	s := open(t, Config{InMemory: true})
	s.mu.Lock()
	s.appendLocked(&txn{ops: []kv.Op{{Key: "/a", Value: []byte("x")}}, found: make([]version, 1)})
	g := s.mu.pending
	s.mu.pending = nil // like nextGroup
	s.mu.Unlock()
	s.engine.guard.Fail(fmt.Errorf("write: %w", syscall.EIO))
	await(t, "a repair", func() bool { return s.Health(t.Context()) == nil })
	if err := s.sync(g); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("writing the group of a replaced engine: %v, want ErrUnavailable", err)
	}
}
