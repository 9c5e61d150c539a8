package codec_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
)

func memory(t testing.TB, limit int64, registerer prometheus.Registerer) *codec.Memory {
	t.Helper()
	m, err := codec.NewMemory(codec.MemoryConfig{Limit: limit, Registerer: registerer})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// storedPods are n records of pods as they are read from storage.
func storedPods(t testing.TB, kind *codec.Kind, n int) []*codec.Record {
	t.Helper()
	records := make([]*codec.Record, n)
	for i := range records {
		pod := testPod()
		pod.Name = fmt.Sprintf("p%05d", i)
		value, err := kind.EncodeStored(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		records[i] = codec.NewRecord(kind, types.NamespacedName{Namespace: "a", Name: pod.Name}, value, int64(i+1))
	}
	return records
}

func tailOf(t testing.TB, r *codec.Record) []byte {
	t.Helper()
	tail, err := r.JSONTail(podVersion())
	if err != nil {
		t.Fatal(err)
	}
	return tail
}

func TestMemoryStaysBelowItsLimit(t *testing.T) {
	t.Parallel()
	const limit, goroutines = 8 << 10, 8
	kind := podKind()
	kind.Memory = memory(t, limit, nil)
	records := storedPods(t, kind, 300)
	want := make([][]byte, len(records))
	for i, r := range storedPods(t, podKind(), len(records)) {
		want[i] = tailOf(t, r)
	}
	var most atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 0))
			for range 2000 {
				i := random.IntN(len(records))
				var got []byte
				if random.IntN(2) == 0 {
					got = tailOf(t, records[i])
				} else {
					var err error
					if got, err = records[i].AppendJSONTail(nil, podVersion()); err != nil {
						t.Error(err)
					}
				}
				if !bytes.Equal(got, want[i]) {
					t.Errorf("record %d: %s", i, got)
				}
				bytes := kind.Memory.Bytes()
				for seen := most.Load(); bytes > seen && !most.CompareAndSwap(seen, bytes); seen = most.Load() {
				}
			}
		})
	}
	wg.Wait()
	if most := most.Load(); most > limit || most < limit/2 {
		t.Errorf("%d bytes at most; the limit is %d", most, limit)
	}
	held := int64(0)
	for _, r := range records {
		held += int64(codec.RememberedBytes(r))
	}
	if held > limit {
		t.Errorf("records hold %d bytes; the limit is %d", held, limit)
	}
}

func TestMemoryKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	kind := podKind()
	kind.Memory = memory(t, 16<<10, nil)
	records := storedPods(t, kind, 200)
	for _, r := range records[1:] {
		tailOf(t, records[0])
		tailOf(t, r)
	}
	if codec.RememberedBytes(records[0]) == 0 {
		t.Error("what was used all the time was forgotten")
	}
	if codec.RememberedBytes(records[1]) != 0 {
		t.Error("what was used once, long ago, was kept")
	}
	// A list larger than the cache does not evict its contents.
	last := records[len(records)-1]
	for _, r := range records {
		if _, err := r.AppendJSONTail(nil, podVersion()); err != nil {
			t.Fatal(err)
		}
	}
	if codec.RememberedBytes(last) == 0 || codec.RememberedBytes(records[0]) == 0 {
		t.Error("a list made others be forgotten")
	}
}

func TestMemoryForgetsTheDead(t *testing.T) {
	t.Parallel()
	kind := podKind()
	kind.Memory = memory(t, codec.NoMemoryLimit, nil)
	records := storedPods(t, kind, 50)
	for _, r := range records {
		tailOf(t, r)
	}
	all := kind.Memory.Bytes()
	kept := records[0]
	records = nil
	for kind.Memory.Bytes() >= all/10 {
		runtime.GC() // which is over before its cleanups are
		runtime.Gosched()
	}
	if kind.Memory.Bytes() == 0 {
		t.Error("what is alive was forgotten")
	}
	runtime.KeepAlive(kept)
}

// TestMemoryGivesBack: while the process is short of memory, encodings go with each
// collection, though their records live.
func TestMemoryGivesBack(t *testing.T) {
	t.Parallel()
	var pressed atomic.Bool
	kind := podKind()
	var err error
	if kind.Memory, err = codec.NewMemory(codec.MemoryConfig{Pressed: pressed.Load}); err != nil {
		t.Fatal(err)
	}
	records := storedPods(t, kind, 50)
	for _, r := range records {
		tailOf(t, r)
	}
	all := kind.Memory.Bytes()
	runtime.GC()
	if got := kind.Memory.Bytes(); got != all {
		t.Errorf("%d of %d bytes are left though nobody needs the memory", got, all)
	}
	pressed.Store(true)
	for kind.Memory.Bytes() > all/4 {
		runtime.GC() // which is over before its cleanups are
		runtime.Gosched()
	}
	if got, want := tailOf(t, records[0]), tailOf(t, storedPods(t, podKind(), 1)[0]); !bytes.Equal(got, want) {
		t.Errorf("the encoding after that is %s, want %s", got, want)
	}
	runtime.KeepAlive(records)
}

func TestMemoryMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	kind := podKind()
	kind.Memory = memory(t, 1<<10, registry)
	records := storedPods(t, kind, 3)
	for _, r := range records {
		tailOf(t, r)
		tailOf(t, r)
	}
	size := len(tailOf(t, records[2])) + 160
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		got[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[0].GetGauge().GetValue()
	}
	want := map[string]float64{
		"mainstay_encoding_cache_bytes": float64(2 * size), "mainstay_encoding_cache_limit_bytes": 1 << 10,
		"mainstay_encoding_cache_evictions_total": 1, "mainstay_encoding_cache_hits_total": 4, "mainstay_encoding_cache_misses_total": 3,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMemoryConfigIsChecked(t *testing.T) {
	t.Parallel()
	if _, err := codec.NewMemory(codec.MemoryConfig{Limit: -2}); err == nil {
		t.Error("a negative limit was accepted")
	}
}
