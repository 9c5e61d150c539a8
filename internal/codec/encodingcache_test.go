package codec_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
)

func memory(t testing.TB, limit int64, registerer prometheus.Registerer) *codec.EncodingCache {
	t.Helper()
	m, err := codec.NewEncodingCache(codec.EncodingCacheConfig{Limit: limit, Registerer: registerer})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// storedPods returns retained records of n stored pods.
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
		records[i].Retain()
	}
	return records
}

func documentTail(t testing.TB, r *codec.Record) []byte {
	t.Helper()
	tail, err := r.JSONTail(podVersion())
	if err != nil {
		t.Fatal(err)
	}
	return tail
}

func TestEncodingCacheLimit(t *testing.T) {
	t.Parallel()
	const limit, goroutines = 8 << 10, 8
	kind := podKind()
	kind.EncodingCache = memory(t, limit, nil)
	records := storedPods(t, kind, 300)
	want := make([][]byte, len(records))
	for i, r := range storedPods(t, podKind(), len(records)) {
		want[i] = documentTail(t, r)
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
					got = documentTail(t, records[i])
				} else {
					var err error
					if got, err = records[i].AppendJSONTail(nil, podVersion()); err != nil {
						t.Error(err)
					}
				}
				if !bytes.Equal(got, want[i]) {
					t.Errorf("record %d: %s", i, got)
				}
				bytes := kind.EncodingCache.Bytes()
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
		held += int64(codec.CachedBytes(r))
	}
	if held > limit {
		t.Errorf("records hold %d bytes; the limit is %d", held, limit)
	}
}

func TestEncodingCacheEvictsLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	kind := podKind()
	kind.EncodingCache = memory(t, 16<<10, nil)
	records := storedPods(t, kind, 200)
	for _, r := range records[1:] {
		documentTail(t, records[0])
		documentTail(t, r)
	}
	if codec.CachedBytes(records[0]) == 0 {
		t.Error("an encoding in frequent use was evicted")
	}
	if codec.CachedBytes(records[1]) != 0 {
		t.Error("an encoding used once, long ago, was not evicted")
	}
	// Reading a list larger than the cache does not evict what is already cached.
	last := records[len(records)-1]
	for _, r := range records {
		if _, err := r.AppendJSONTail(nil, podVersion()); err != nil {
			t.Fatal(err)
		}
	}
	if codec.CachedBytes(last) == 0 || codec.CachedBytes(records[0]) == 0 {
		t.Error("a list evicted other encodings")
	}
}

// TestRelease checks that the encodings of a record count toward the cache from Retain to the last Release,
// and that a released record caches nothing.
func TestRelease(t *testing.T) {
	t.Parallel()
	kind := podKind()
	kind.EncodingCache = memory(t, codec.NoEncodingCacheLimit, nil)
	record := storedPods(t, kind, 1)[0]
	want := documentTail(t, record)
	size := kind.EncodingCache.Bytes()
	if size < int64(len(want)) {
		t.Errorf("%d bytes are counted for an encoding of %d", size, len(want))
	}
	record.Retain() // by another cache
	record.Release()
	if got := kind.EncodingCache.Bytes(); got != size {
		t.Errorf("%d bytes are counted while a cache has the record, want %d", got, size)
	}
	record.Release()
	for range 2 {
		if got := kind.EncodingCache.Bytes(); got != 0 || codec.CachedBytes(record) != 0 {
			t.Errorf("after the release, %d bytes are counted, and the record has %d", got, codec.CachedBytes(record))
		}
		if got := documentTail(t, record); !bytes.Equal(got, want) {
			t.Errorf("the encoding after the release is %s, want %s", got, want)
		}
	}
}

// TestRetainLater checks that Retain counts an encoding that was created before, or drops it if it exceeds
// the limit.
func TestRetainLater(t *testing.T) {
	t.Parallel()
	for limit, counted := range map[int64]bool{1 << 20: true, 200: false} {
		kind := podKind()
		value, err := kind.EncodeStored(t.Context(), testPod())
		if err != nil {
			t.Fatal(err)
		}
		kind.EncodingCache = memory(t, limit, nil)
		record := codec.NewRecord(kind, types.NamespacedName{Namespace: "a", Name: "p"}, value, 1)
		documentTail(t, record)
		if got := kind.EncodingCache.Bytes(); got != 0 || codec.CachedBytes(record) == 0 {
			t.Errorf("limit %d: %d bytes are counted before Retain, and the record has %d", limit, got, codec.CachedBytes(record))
		}
		record.Retain()
		if got := kind.EncodingCache.Bytes() > 0; got != counted {
			t.Errorf("limit %d: counted after Retain: %t, want %t", limit, got, counted)
		}
		if got := codec.CachedBytes(record) > 0; got != counted {
			t.Errorf("limit %d: cached after Retain: %t, want %t", limit, got, counted)
		}
	}
}

// TestReleaseConcurrently reads records while caches retain and release them.
func TestReleaseConcurrently(t *testing.T) {
	t.Parallel()
	kind := podKind()
	kind.EncodingCache = memory(t, 8<<10, nil)
	records := storedPods(t, kind, 30)
	want := make([][]byte, len(records))
	for i, r := range storedPods(t, podKind(), len(records)) {
		want[i] = documentTail(t, r)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 0))
			for range 2000 {
				i := random.IntN(len(records))
				switch random.IntN(10) {
				case 0:
					records[i].Retain()
					records[i].Release()
				case 1:
					kind.EncodingCache.EvictHalf()
				default:
					if got := documentTail(t, records[i]); !bytes.Equal(got, want[i]) {
						t.Errorf("record %d: %s", i, got)
					}
				}
			}
		})
	}
	wg.Wait()
	for _, r := range records {
		r.Release()
	}
	if got := kind.EncodingCache.Bytes(); got != 0 {
		t.Errorf("%d bytes are counted after all records were released", got)
	}
}

func TestEvictHalf(t *testing.T) {
	t.Parallel()
	kind := podKind()
	kind.EncodingCache = memory(t, 0, nil)
	records := storedPods(t, kind, 50)
	for _, r := range records {
		documentTail(t, r)
	}
	all := kind.EncodingCache.Bytes()
	kind.EncodingCache.EvictHalf()
	if got := kind.EncodingCache.Bytes(); got > all/2 || got < all/3 {
		t.Errorf("%d of %d bytes are left", got, all)
	}
	if got, want := documentTail(t, records[0]), documentTail(t, storedPods(t, podKind(), 1)[0]); !bytes.Equal(got, want) {
		t.Errorf("the encoding after the eviction is %s, want %s", got, want)
	}
	var none *codec.EncodingCache
	none.EvictHalf()
}

func TestEncodingCacheMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	kind := podKind()
	kind.EncodingCache = memory(t, 1<<10, registry)
	records := storedPods(t, kind, 3)
	for _, r := range records {
		documentTail(t, r)
		documentTail(t, r)
	}
	size := len(documentTail(t, records[2])) + 160
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

func TestEncodingCacheConfig(t *testing.T) {
	t.Parallel()
	if _, err := codec.NewEncodingCache(codec.EncodingCacheConfig{Limit: -2}); err == nil {
		t.Error("a negative limit was accepted")
	}
}
