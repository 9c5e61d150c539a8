package embedded

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// benchValue has about the size of a small pod.
var benchValue = []byte(strings.Repeat("abcdefghijklmnop", 64))

// BenchmarkCommit writes 1 KiB values durably. It reports the CPU time of the whole process per
// commit, in addition to the elapsed time.
func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 32, 256} {
		b.Run(fmt.Sprintf("create/%d", writers), func(b *testing.B) {
			benchCommit(b, writers, func(s *Store, i int) (kv.CommitResult, error) {
				return s.Commit(b.Context(), kv.Op{Key: fmt.Sprintf("/registry/pods/default/pod-%08d", i), Value: benchValue})
			})
		})
		b.Run(fmt.Sprintf("update/%d", writers), func(b *testing.B) {
			benchCommit(b, writers, func(s *Store, i int) (kv.CommitResult, error) {
				return s.Commit(b.Context(), kv.Op{Key: fmt.Sprintf("/registry/pods/default/pod-%08d", i*7919%10000), Value: benchValue, Expect: kv.AnyRevision})
			})
		})
	}
}

func benchCommit(b *testing.B, writers int, commit func(*Store, int) (kv.CommitResult, error)) {
	s := open(b, Config{Dir: b.TempDir()})
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	cpu := cpuTime()
	b.ResetTimer()
	for range writers {
		wg.Go(func() {
			for {
				i := int(next.Add(1))
				if i > b.N {
					return
				}
				if res, err := commit(s, i); err != nil || !res.Committed {
					b.Errorf("commit: %+v, %v", res, err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-us/op")
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fill puts n keys with values of 1 KiB.
func fill(b testing.TB, s *Store, n int) {
	b.Helper()
	for i := 0; i < n; {
		var ops []kv.Op
		for range min(500, n-i) {
			ops = append(ops, kv.Op{Key: fmt.Sprintf("/registry/pods/default/pod-%08d", i), Value: benchValue, Expect: kv.AnyRevision})
			i++
		}
		if _, err := s.Commit(b.Context(), ops...); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s := open(b, Config{Dir: b.TempDir()})
	fill(b, s, 10000)
	b.ReportAllocs()
	cpu := cpuTime()
	i := 0
	for b.Loop() {
		i += 7919
		if e, _, err := s.Get(b.Context(), fmt.Sprintf("/registry/pods/default/pod-%08d", i%10000), 0); e == nil || err != nil {
			b.Fatal(e, err)
		}
	}
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-us/op")
}

// BenchmarkReadAfterWrites reads 10,000 keys that were rewritten seven times in a different order, so that
// versions of each key are in many sublevels of L0.
func BenchmarkReadAfterWrites(b *testing.B) {
	s := open(b, Config{Dir: b.TempDir()})
	fill(b, s, 10_000)
	for i := 0; i < 70_000; {
		var ops []kv.Op
		for range 100 {
			i++
			ops = append(ops, kv.Op{Key: fmt.Sprintf("/registry/pods/default/pod-%08d", i*7919%10000), Value: engineValue(i), Expect: kv.AnyRevision})
		}
		if _, err := s.Commit(b.Context(), ops...); err != nil {
			b.Fatal(err)
		}
	}
	m := s.engine.db.Metrics()
	sublevels, compacted := float64(m.Levels[0].Sublevels), float64(m.Total().TableBytesCompacted)/float64(m.WAL.BytesWritten)
	read := func(name string, do func(i int) error) {
		b.Run(name, func(b *testing.B) {
			cpu := cpuTime()
			i := 0
			for b.Loop() {
				i += 7919
				if err := do(i); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-us/op")
			b.ReportMetric(sublevels, "sublevels")
			b.ReportMetric(compacted, "compacted/written")
		})
	}
	read("get", func(i int) error {
		_, _, err := s.Get(b.Context(), fmt.Sprintf("/registry/pods/default/pod-%08d", i%10000), 0)
		return err
	})
	read("absent", func(i int) error {
		_, _, err := s.Get(b.Context(), fmt.Sprintf("/registry/pods/default/pod-%08d-", i%10000), 0)
		return err
	})
	const prefix = "/registry/pods/"
	for name, limit := range map[string]int{"page": 501, "all": 0} {
		read(name, func(int) error {
			_, err := s.Range(b.Context(), kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix), Limit: limit})
			return err
		})
	}
}

func BenchmarkRange10k(b *testing.B) {
	s := open(b, Config{Dir: b.TempDir()})
	fill(b, s, 10000)
	const prefix = "/registry/pods/"
	for name, req := range map[string]kv.RangeRequest{
		"all":           {Start: prefix},
		"page":          {Start: prefix, Limit: 501},
		"page+count":    {Start: prefix, Limit: 501, WithCount: true},
		"count":         {Start: prefix, CountOnly: true},
		"count/unknown": {Start: prefix + "default/pod-0", CountOnly: true},
	} {
		req.End = kv.PrefixEnd(prefix)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			cpu := cpuTime()
			for b.Loop() {
				if res, err := s.Range(b.Context(), req); err != nil || res.Count != 10000 && name != "page" {
					b.Fatal(res.Count, err)
				}
			}
			b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

// BenchmarkPages10k reads 10,000 keys in pages of 500 with their counts, at an
// old revision while the keys change.
func BenchmarkPages10k(b *testing.B) {
	s := open(b, Config{Dir: b.TempDir()})
	fill(b, s, 10000)
	const prefix = "/registry/pods/"
	b.ReportAllocs()
	pages := 0
	cpu := cpuTime()
	for b.Loop() {
		at := kv.Revision(s.published.Load())
		fill(b, s, 1)
		left, start := int64(10000), prefix
		for {
			res, err := s.Range(b.Context(), kv.RangeRequest{Start: start, End: kv.PrefixEnd(prefix), At: at, Limit: 501, WithCount: true})
			if err != nil || res.Count != left {
				b.Fatal(res.Count, left, err)
			}
			pages++
			if !res.More {
				break
			}
			left -= 500
			start = res.Entries[499].Key + "\x00"
		}
	}
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(pages), "cpu-us/page")
}

// BenchmarkWatchFanOut delivers each commit to many watches. The key range of every second watch
// contains no events.
func BenchmarkWatchFanOut(b *testing.B) {
	for _, watches := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(watches), func(b *testing.B) {
			s := open(b, Config{InMemory: true})
			var wg sync.WaitGroup
			var last atomic.Int64
			for i := range watches {
				start := "/registry/pods/"
				if i%2 == 1 {
					start = "/registry/secrets/"
				}
				w, err := s.Watch(b.Context(), start, kv.PrefixEnd(start), 0)
				if err != nil {
					b.Fatal(err)
				}
				wg.Go(func() {
					for batch := range w.Batches() {
						if at := last.Load(); at > 0 && int64(batch.Revision) >= at {
							w.Stop()
						}
					}
				})
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if i == b.N-1 {
					last.Store(s.published.Load() + 1)
				}
				if _, err := s.Commit(b.Context(), kv.Op{Key: "/registry/pods/default/a", Value: benchValue, Expect: kv.AnyRevision}); err != nil {
					b.Fatal(err)
				}
			}
			wg.Wait()
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	b.Run("empty", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			dir := b.TempDir()
			b.StartTimer()
			s, err := Open(Config{Dir: dir})
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			_ = s.Close()
			b.StartTimer()
		}
	})
	for _, n := range []int{1, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir := b.TempDir()
			s := open(b, Config{Dir: dir})
			fill(b, s, n)
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for b.Loop() {
				s, err := Open(Config{Dir: dir})
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				_ = s.Close()
				b.StartTimer()
			}
		})
	}
}

func BenchmarkSnapshot100k(b *testing.B) {
	s := open(b, Config{Dir: b.TempDir()})
	fill(b, s, 100_000)
	for b.Loop() {
		if _, err := s.Snapshot(b.Context(), io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAtRest reports the heap, goroutines and CPU time of an idle, empty store.
func BenchmarkAtRest(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()
	const stores = 10
	for range stores {
		open(b, Config{Dir: b.TempDir()})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	cpu := cpuTime()
	time.Sleep(2 * time.Second)
	cpu = cpuTime() - cpu
	for b.Loop() {
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/stores/1024, "KiB/store")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/stores, "goroutines/store")
	b.ReportMetric(float64(cpu.Microseconds())/2/stores, "cpu-us/s")
}
