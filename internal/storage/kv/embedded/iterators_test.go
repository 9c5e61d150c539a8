package embedded

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// TestIteratorPool checks transactions whose conditions are true and transactions whose conditions
// are false. Each writer tracks the revisions of its own keys. The values are large, so that recent
// soon evicts them.
func TestIteratorPool(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: "d", FS: vfs.NewMem()})
	const keys, steps = 40, 300
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 0))
			var have [keys]kv.Revision
			for range steps {
				i := rng.IntN(keys)
				op := kv.Op{Key: fmt.Sprintf("w%d/%d", w, i), Expect: have[i], Value: []byte(strings.Repeat("v", rng.IntN(100_000)))}
				wrong := rng.IntN(3) == 0
				if wrong {
					op.Expect = []kv.Revision{0, 1, have[i] + 1}[rng.IntN(3)]
					wrong = op.Expect != have[i]
				}
				if rng.IntN(4) == 0 {
					op.Kind, op.Value = kv.OpDelete, nil
				}
				res, err := s.Commit(t.Context(), op)
				if err != nil {
					t.Error(err)
					return
				}
				if res.Committed == wrong || !res.Committed && modified(&version{entry: res.Current[0]}) != have[i] {
					t.Errorf("%s is of revision %d, an operation that expects %d has %+v", op.Key, have[i], op.Expect, res)
					return
				}
				switch {
				case !res.Committed || op.Kind == kv.OpDelete && have[i] == 0:
				case op.Kind == kv.OpDelete:
					have[i] = 0
				default:
					have[i] = res.Revision
				}
			}
		})
	}
	writers.Wait()
	e := s.engine
	await(t, "the end of idle iterators", func() bool {
		e.iterators.mu.Lock()
		defer e.iterators.mu.Unlock()
		return len(e.iterators.idle) == 0
	})
}

// TestIteratorIsReused: soon, where it is new enough, and as it was made.
func TestIteratorIsReused(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: "d", FS: vfs.NewMem()})
	at := put(t, s, "k", "v")
	taken := func(floor kv.Revision, creates bool) *pooledIterator {
		t.Helper()
		v, err := s.iterator(s.engine, floor, creates)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	x := &s.engine.iterators
	give := func(v *pooledIterator, asked time.Duration) (kept bool) {
		x.mu.Lock()
		x.busy = asked < iteratorGap
		x.mu.Unlock()
		v.until = time.Now().Add(time.Hour)
		x.give(v)
		return len(x.idle) > 0
	}
	v := taken(at, true)
	if !give(v, 0) {
		t.Fatal("an iterator is not kept")
	}
	if other := taken(at, false); other == v {
		t.Error("one that asks the last level's filters is used where that does not pay")
	} else {
		_ = other.it.Close()
	}
	if newer := taken(put(t, s, "k", "w"), true); newer == v {
		t.Error("one that is too old is used")
	} else {
		_ = newer.it.Close()
	}
	if again := taken(at, true); again != v {
		t.Error("it is not used again")
	}
	if give(v, iteratorGap) {
		t.Error("one that was asked for after a while is kept")
	}
	if v = taken(at, true); !give(v, 0) {
		t.Fatal("an iterator is not kept")
	}
	// The store is closed with it.
}
