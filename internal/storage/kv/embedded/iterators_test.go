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

// TestIteratorPool checks the results of transactions with true and with false conditions. Each writer tracks
// the revisions of its own keys. The values are large, so that recent soon evicts them.
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
					t.Errorf("%s has revision %d, an operation that expects %d returned %+v", op.Key, have[i], op.Expect, res)
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

// TestIteratorIsReused checks that an iterator is reused only if requests are frequent, if it has the
// requested options, and if its revision is new enough.
func TestIteratorIsReused(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: "d", FS: vfs.NewMem()})
	at := put(t, s, "k", "v")
	get := func(floor kv.Revision, creates bool) *pooledIterator {
		t.Helper()
		v, err := s.iterator(s.engine, floor, creates)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	x := &s.engine.iterators
	putBack := func(v *pooledIterator, interval time.Duration) (retained bool) {
		x.mu.Lock()
		x.busy = interval < iteratorGap
		x.mu.Unlock()
		v.until = time.Now().Add(time.Hour)
		x.put(v)
		return len(x.idle) > 0
	}
	v := get(at, true)
	if !putBack(v, 0) {
		t.Fatal("an iterator is not retained")
	}
	if other := get(at, false); other == v {
		t.Error("an iterator with other options is reused")
	} else {
		_ = other.it.Close()
	}
	if newer := get(put(t, s, "k", "w"), true); newer == v {
		t.Error("an outdated iterator is reused")
	} else {
		_ = newer.it.Close()
	}
	if again := get(at, true); again != v {
		t.Error("the iterator is not reused")
	}
	if putBack(v, iteratorGap) {
		t.Error("an iterator is retained although requests are rare")
	}
	if v = get(at, true); !putBack(v, 0) {
		t.Fatal("an iterator is not retained")
	}
	// The cleanup closes the store with an iterator in the pool.
}
