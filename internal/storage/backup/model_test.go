package backup

import (
	"fmt"
	"maps"
	"math/rand/v2"
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
}

// TestModel makes random commits, with failures of the target, restarts of the server and power failures, and compares
// restored states with a model.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			m := &model{t: t, disk: vfs.NewCrashableMem(), target: newMemory(), now: contents{}, states: map[kv.Revision]contents{}}
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

// kill ends the backup without the upload of the newest commits.
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
	default:
		m.commit(random)
	}
}

// commit makes a commit of several keys, and records the state after it.
func (m *model) commit(random *rand.Rand) {
	var ops []kv.Op
	for _, n := range random.Perm(30)[:1+random.IntN(3)] {
		op := kv.Op{Key: fmt.Sprintf("/registry/things/%02d", n), Expect: kv.AnyRevision, Kind: kv.OpDelete}
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
		got, restored, at := restore(m.t, source, Moment{Revision: revision})
		if diff := cmp.Diff(want, got); diff != "" || restored.Revision != revision || at <= newest {
			m.t.Errorf("restored revision %d of %d, newest %d: got (+), want (-):\n%s", restored.Revision, revision, at, diff)
		}
	}
}
