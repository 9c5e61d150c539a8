package backup

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// model writes to a store with a backup, and records each state.
type model struct {
	t      *testing.T
	disk   *vfs.MemFS
	target *memory
	store  *embedded.Store
	writer *Writer
	now    contents
	states map[kv.Revision]contents
	pins   map[string]*modelPin // by owner
}

type modelPin struct {
	at      kv.Revision
	since   kv.Revision // the first revision after the pin was made
	removed bool
}

const pinnedPrefix = "/registry/things/"

// TestModel makes random commits and pins, with failures of the target, restarts of the server and power failures, and
// compares restored states with a model.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			m := &model{t: t, disk: vfs.NewCrashableMem(), target: newMemory(), now: contents{}, states: map[kv.Revision]contents{}, pins: map[string]*modelPin{}}
			random := rand.New(rand.NewPCG(seed, 1))
			m.open()
			m.now["/first"] = "2-2 x" // a store without commits is not recognized after a restart
			m.states[commitValue(t, m.store, "/first", "x")] = maps.Clone(m.now)
			m.writer = m.startWriter()
			for range 150 {
				m.step(random)
			}
			m.target.setFail(func() error { return nil })
			m.check(random)
		})
	}
}

func (m *model) open() {
	s, err := embedded.Open(embedded.Config{Dir: "store", FS: m.disk})
	if err != nil {
		m.t.Fatal(err)
	}
	m.store = s
	m.t.Cleanup(func() { _ = s.Close() })
}

// kill stops the backup without uploading the newest commits.
func (m *model) kill() {
	m.writer.cancel()
	m.writer.tasks.Wait()
	m.writer.setPending(time.Time{})
	closeWriter(m.t, m.writer)
}

// restart opens the store again.
func (m *model) restart() {
	if err := m.store.Close(); err != nil {
		m.t.Fatal(err)
	}
	m.open()
	m.writer = m.startWriter()
}

func (m *model) startWriter() *Writer {
	base := time.Hour
	if rand.IntN(2) == 0 {
		base = 20 * time.Millisecond
	}
	return startWriter(m.t, Config{Backend: m.store, Target: m.target, BaseInterval: base})
}

func (m *model) step(random *rand.Rand) {
	switch random.IntN(20) {
	case 0:
		m.target.setFail(func() error {
			if rand.IntN(3) == 0 {
				return errTarget
			}
			return nil
		})
	case 1:
		m.target.setFail(func() error { return nil })
	case 2: // restart
		m.target.setFail(func() error { return nil })
		closeWriter(m.t, m.writer)
		m.restart()
	case 3: // the server is killed
		m.kill()
		m.restart()
	case 4: // the power fails, with a disk that loses some, all or none of the unsynced data
		left := m.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[random.IntN(3)], RNG: random})
		m.kill()
		m.disk = left
		m.restart()
		if newest, err := m.store.CurrentRevision(m.t.Context()); err != nil || newest < m.writer.Position() {
			m.t.Errorf("the store ends at revision %d, before the backup at %d: %v", newest, m.writer.Position(), err)
		}
	case 5:
		m.pin(random)
	case 6:
		m.unpin(random)
	default:
		m.commit(random)
	}
}

// pin pins the newest state, or an earlier one.
func (m *model) pin(random *rand.Rand) {
	revisions := slices.Sorted(maps.Keys(m.states))
	at := revisions[len(revisions)-1]
	if random.IntN(2) == 0 {
		at = revisions[random.IntN(len(revisions))]
	}
	owner := fmt.Sprint(len(m.pins))
	if err := m.store.Pin(m.t.Context(), owner, pinnedPrefix, at); err != nil {
		m.t.Fatal(err)
	}
	// The backup contains the pin when it contains the segment of a later commit.
	m.pins[owner] = &modelPin{at: at, since: m.commit(random)}
}

func (m *model) unpin(random *rand.Rand) {
	if len(m.pins) == 0 {
		return
	}
	owner := fmt.Sprint(random.IntN(len(m.pins)))
	m.pins[owner].removed = true
	if err := m.store.Unpin(m.t.Context(), owner); err != nil {
		m.t.Fatal(err)
	}
}

// commit makes a commit of several keys, records the state after it, and returns its revision.
func (m *model) commit(random *rand.Rand) kv.Revision {
	var ops []kv.Op
	for _, n := range random.Perm(30)[:1+random.IntN(3)] {
		op := kv.Op{Key: fmt.Sprintf(pinnedPrefix+"%02d", n), Expect: kv.AnyRevision, Kind: kv.OpDelete}
		if random.IntN(4) > 0 {
			op.Kind, op.Value = kv.OpPut, fmt.Appendf(nil, "value %d", random.Int())
			if random.IntN(3) == 0 {
				op.TTL = time.Hour
			}
		}
		ops = append(ops, op)
	}
	result, err := m.store.Commit(m.t.Context(), ops...)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, op := range ops {
		if op.Kind == kv.OpDelete {
			delete(m.now, op.Key)
			continue
		}
		entry, _, err := m.store.Get(m.t.Context(), op.Key, 0)
		if err != nil {
			m.t.Fatal(err)
		}
		m.now[op.Key] = describe(entry)
	}
	m.states[result.Revision] = maps.Clone(m.now)
	return result.Revision
}

// check restores revisions and compares their states.
func (m *model) check(random *rand.Rand) {
	newest, err := m.store.CurrentRevision(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	awaitRevision(m.t, m.writer, newest)
	closeWriter(m.t, m.writer)
	source := &Source{Target: m.target}
	verified, err := source.Verify(m.t.Context(), catalogOf(m.t, m.target))
	if err != nil || len(verified.Problems) > 0 {
		m.t.Fatalf("verify: %v, %v", verified.Problems, err)
	}
	first := catalogOf(m.t, m.target).Generations[0].Bases[0].Revision
	for revision, want := range m.states {
		if revision < first || random.IntN(8) > 0 && revision != newest {
			continue
		}
		plan, err := catalogOf(m.t, m.target).Plan(Moment{Revision: revision}, "")
		if err != nil {
			m.t.Fatal(err)
		}
		dir := m.t.TempDir()
		restored, err := source.Restore(m.t.Context(), plan, dir)
		if err != nil || restored.Revision != revision {
			m.t.Fatalf("restored revision %d of %d: %v", restored.Revision, revision, err)
		}
		m.checkStore(dir, plan, revision, want)
		if at := checkedRevision(m.t, dir); at <= newest {
			m.t.Errorf("the restored store begins at revision %d, the newest being %d", at, newest)
		}
	}
}

// checkStore compares a restored store with the state of a revision, and the pinned states with the states of
// the pinned revisions.
func (m *model) checkStore(dir string, plan *Plan, revision kv.Revision, want contents) {
	s := openStore(m.t, dir)
	defer s.Close()
	if diff := cmp.Diff(want, contentsOf(m.t, s, "", 0)); diff != "" {
		m.t.Errorf("restored revision %d: got (+), want (-):\n%s", revision, diff)
	}
	pins, err := s.Pins(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	restored := map[string]bool{}
	for _, p := range pins {
		restored[p.Owner] = true
		want := maps.Clone(m.states[p.Revision])
		delete(want, "/first")
		if diff := cmp.Diff(want, contentsOf(m.t, s, p.Prefix, p.Revision)); diff != "" || p.Revision > revision {
			m.t.Errorf("restored revision %d, pinned revision %d, base %d: got (+), want (-):\n%s", revision, p.Revision, plan.Base.Revision, diff)
		}
	}
	for owner, p := range m.pins {
		if !p.removed && p.since <= revision && p.at >= plan.Base.Revision && !restored[owner] {
			m.t.Errorf("restored revision %d lacks the pin of revision %d, made before revision %d", revision, p.at, p.since)
		}
	}
}

// checkedRevision verifies a store and returns its revision.
func checkedRevision(t *testing.T, dir string) kv.Revision {
	t.Helper()
	report, err := embedded.Check(t.Context(), dir, nil)
	if err != nil {
		t.Error(err)
	}
	return report.Revision
}
