package embedded

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// pinnedState is the content of the prefix /a/ at an acknowledged pin.
type pinnedState struct {
	revision kv.Revision
	values   map[string]string
}

// pinJournal contains the states of the acknowledged pins, by owner. Before Unpin is called, the owner is
// removed.
type pinJournal struct {
	mu     sync.Mutex
	states map[string]pinnedState
}

func (j *pinJournal) set(owner string, state *pinnedState) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if state == nil {
		delete(j.states, owner)
	} else {
		j.states[owner] = *state
	}
}

func (j *pinJournal) copy() map[string]pinnedState {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.states)
}

// valuesAt returns the content of the prefix /a/ at a revision.
func valuesAt(t *testing.T, s *Store, at kv.Revision) map[string]string {
	t.Helper()
	list, err := s.Range(t.Context(), kv.RangeRequest{Start: "/a/", End: "/a0", At: at})
	if err != nil {
		t.Fatalf("range at %d: %v", at, err)
	}
	values := map[string]string{}
	for _, e := range list.Entries {
		values[e.Key] = string(e.Value)
	}
	return values
}

// TestPinCrashAtEveryWrite simulates a power failure before each disk operation while states are pinned,
// compacted and released. All acknowledged pins must survive with their states.
func TestPinCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	j := &pinJournal{states: map[string]pinnedState{}}
	type cut struct {
		disk *vfs.MemFS
		had  map[string]pinnedState
	}
	var mu sync.Mutex
	var cuts []cut
	record := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		had := j.copy() // before the disk is copied, so that the copy contains all of these pins
		cuts = append(cuts, cut{mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100 * (len(cuts) % 2), RNG: rand.New(rand.NewPCG(1, 2))}), had})
		return nil
	})
	s := open(t, Config{Dir: "d", FS: errorfs.Wrap(mem, record), Retention: -1})
	for i := range 60 {
		op := kv.Op{Key: fmt.Sprintf("/a/%d", i%7), Value: fmt.Append(nil, i), Expect: kv.AnyRevision}
		if i%5 == 4 {
			op.Kind, op.Value = kv.OpDelete, nil
		}
		commitOp(t, s, op)
		owner := fmt.Sprint(i / 12)
		switch i % 12 {
		case 2:
			state := &pinnedState{kv.Revision(s.published.Load()), valuesAt(t, s, 0)}
			if err := s.Pin(t.Context(), owner, "/a/", state.revision); err != nil {
				t.Fatal(err)
			}
			j.set(owner, state)
		case 6, 11:
			compactStore(t, s)
		case 9:
			owner = fmt.Sprint(i/12 - 2)
			j.set(owner, nil)
			if err := s.Unpin(t.Context(), owner); err != nil {
				t.Fatal(err)
			}
			if err := s.sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d crashes", len(cuts))
	for i := 0; i < len(cuts); i += stride() {
		survivor, err := Open(Config{Dir: "d", FS: cuts[i].disk, Retention: -1})
		if err != nil {
			t.Fatalf("crash %d: %v", i, err)
		}
		for owner, state := range cuts[i].had {
			if diff := cmp.Diff(state.values, valuesAt(t, survivor, state.revision)); diff != "" {
				t.Fatalf("crash %d: the pin of %s (-want +got):\n%s", i, owner, diff)
			}
		}
		checkHistory(t, survivor)
		if err := survivor.Close(); err != nil {
			t.Fatalf("crash %d: close: %v", i, err)
		}
	}
}
