package archive

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// model is a naive archive that stores all states.
type model struct {
	t       *testing.T
	rand    *rand.Rand
	now     atomic.Int64 // Unix seconds
	disk    *vfs.MemFS   // of the backend and the archive
	backend *embedded.Store
	config  Config
	archive *Archive
	// states contains the values by key at each revision. times contains the times of the revisions.
	states map[kv.Revision]map[string]string
	times  map[kv.Revision]time.Time
	newest kv.Revision
}

// TestModel compares an archive with a naive one during random writes, retention, compactions of the
// backend, restarts, crashes and power failures.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := &model{t: t, rand: rand.New(rand.NewPCG(seed, 1)), states: map[kv.Revision]map[string]string{}, times: map[kv.Revision]time.Time{}}
			m.now.Store(minute(0).Unix())
			m.disk = vfs.NewCrashableMem()
			m.backend = openBackend(t, embedded.Config{Dir: "store", FS: m.disk})
			m.config = Config{
				Dir: "history", Prefix: "/registry/", fs: m.disk, now: func() time.Time { return time.Unix(m.now.Load(), 0) },
				Policy: Policy{MaxAge: 100 * time.Minute, Resources: map[string]Rule{
					"leases": {MaxAge: 5 * time.Minute}, "example.com/widgets": {MaxAge: 300 * time.Minute, MaxVersions: 10},
				}},
			}
			m.record(1, "", "")
			m.archive = openArchive(t, m.backend, m.config)
			for range 1500 {
				m.step()
			}
			m.check()
		})
	}
}

func (m *model) step() {
	switch n := m.rand.IntN(100); {
	case n < 70:
		m.write()
	case n < 80:
		m.now.Add(int64(m.rand.IntN(300)))
	case n < 84:
		if err := m.archive.Trim(m.t.Context()); err != nil {
			m.t.Fatal(err)
		}
	case n < 86:
		m.restart()
	case n < 87:
		m.powerFailure()
	case n < 89:
		catchUp(m.t, m.archive)
		if err := m.backend.Compact(m.t.Context(), m.archive.Position()); err != nil {
			m.t.Fatal(err)
		}
	default:
		m.checkAt(1 + kv.Revision(m.rand.Int64N(int64(m.newest))))
	}
}

func (m *model) write() {
	resource := []string{"pods", "leases", "example.com/widgets"}[m.rand.IntN(3)]
	key := fmt.Sprintf("%s/ns/%d", resource, m.rand.IntN(4))
	at := time.Unix(m.now.Load(), 0)
	if _, ok := m.states[m.newest][key]; ok && m.rand.IntN(4) == 0 {
		m.record(remove(m.t, m.backend, key, at), key, "")
		return
	}
	value := strings.Repeat("text that does not change ", 10) + fmt.Sprint(m.rand.IntN(1000)) // stored as a delta
	m.record(put(m.t, m.backend, key, value, at), key, value)
}

// record adds the state after a write. An empty value is a deletion.
func (m *model) record(at kv.Revision, key, value string) {
	next := maps.Clone(m.states[m.newest])
	if next == nil {
		next = map[string]string{}
	}
	if value == "" {
		delete(next, key)
	} else {
		next[key] = value
	}
	m.states[at], m.times[at], m.newest = next, time.Unix(m.now.Load(), 0), at
}

// restart closes the archive or simulates its crash, and opens it again.
func (m *model) restart() {
	crash := m.rand.IntN(2) == 0
	m.archive.cancel()
	if crash {
		m.archive.life.RLock()
		if m.archive.db != nil {
			m.archive.db.guard.Fail(errors.New("crash"))
		}
		m.archive.life.RUnlock()
	}
	// A crash also ends the process of the backend, so the archive does not release its hold.
	release := func() {}
	m.archive.tasks.Wait()
	if at := m.archive.hold.revision; at > 0 {
		var err error
		if _, release, err = m.backend.Hold(m.t.Context(), at); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := m.archive.Close(); err != nil && !crash {
		m.t.Fatal(err)
	}
	m.archive = openArchive(m.t, m.backend, m.config)
	release()
}

// powerFailure simulates a power failure, in which the disk of the backend and the archive loses some, all or
// none of the unsynced data.
func (m *model) powerFailure() {
	m.disk = m.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[m.rand.IntN(3)], RNG: m.rand})
	_ = m.archive.Close() // its writes are not in the copy
	if err := m.backend.Close(); err != nil {
		m.t.Fatal(err)
	}
	m.config.fs = m.disk
	a, err := Open(m.config)
	if err != nil {
		m.t.Fatal(err)
	}
	m.archive = a
	m.t.Cleanup(func() { _ = a.Close() })
	m.backend = openBackend(m.t, embedded.Config{Dir: "store", FS: m.disk, Held: a.Position()})
	if err := a.Start(m.t.Context(), m.backend); err != nil {
		m.t.Fatal(err)
	}
	catchUp(m.t, a)
}

// check compares all revisions and times.
func (m *model) check() {
	for _, at := range slices.Sorted(maps.Keys(m.states)) {
		m.checkAt(at)
	}
}

func (m *model) checkAt(at kv.Revision) {
	t := m.t
	age := time.Unix(m.now.Load(), 0).Sub(m.times[at])
	v, err := m.archive.View(t.Context(), at)
	if err != nil {
		if !errors.Is(err, kv.ErrCompacted) || age < 300*time.Minute {
			t.Fatalf("view of revision %d, %s ago: %v", at, age, err)
		}
		return
	}
	for resource, retained := range map[string]time.Duration{"pods": 100 * time.Minute, "leases": 5 * time.Minute, "example.com/widgets": 0} {
		prefix := "/registry/" + resource + "/"
		res, err := v.Range(t.Context(), kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix)})
		if err != nil {
			if !errors.Is(err, kv.ErrCompacted) || age < retained {
				t.Fatalf("%s at revision %d, %s ago: %v", resource, at, age, err)
			}
			continue
		}
		got, want := map[string]string{}, map[string]string{}
		for _, e := range res.Entries {
			got[strings.TrimPrefix(e.Key, "/registry/")] = string(e.Value)
		}
		for key, value := range m.states[at] {
			if strings.HasPrefix(key, resource+"/") {
				want[key] = value
			}
			e, _, err := v.Get(t.Context(), "/registry/"+key, 0)
			if err == nil && (e == nil || string(e.Value) != value) {
				t.Fatalf("%s at revision %d is %+v, want %s", key, at, e, value)
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("%s at revision %d: %v, want %v", resource, at, got, want)
		}
	}
	found, err := m.archive.RevisionAt(t.Context(), m.times[at])
	if err != nil && (!errors.Is(err, kv.ErrCompacted) || age < 300*time.Minute) {
		t.Fatalf("the revision at the time of %d: %v", at, err)
	}
	if err == nil && m.times[found].After(m.times[at]) {
		t.Fatalf("the revision at the time of %d, %s, is %d of %s", at, m.times[at], found, m.times[found])
	}
	for key, value := range m.states[at] { // changes of leases may have been deleted
		if err == nil && found < at && age < 100*time.Minute && !strings.HasPrefix(key, "leases") && m.states[found][key] != value {
			t.Fatalf("the revision at the time of %d is %d, which has another value of %s", at, found, key)
		}
	}
}
