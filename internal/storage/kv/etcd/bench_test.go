package etcd

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
)

// benchValue has about the size of a small pod. The benchmarks correspond to the benchmarks with the same
// names in package embedded, with etcd on the same machine.
var benchValue = []byte(strings.Repeat("abcdefghijklmnop", 64))

func benchStore(b *testing.B) *Store {
	b.Helper()
	return open(b, Config{Endpoints: etcdtest.Start(b, etcdtest.Options{Durable: true}).URLs()})
}

func benchKey(i int) string { return fmt.Sprintf("/registry/pods/default/pod-%08d", i) }

func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 32, 256} {
		b.Run(fmt.Sprintf("create/%d", writers), func(b *testing.B) {
			benchCommit(b, writers, func(i int) kv.Op { return kv.Op{Key: benchKey(i), Value: benchValue} })
		})
		b.Run(fmt.Sprintf("update/%d", writers), func(b *testing.B) {
			benchCommit(b, writers, func(i int) kv.Op {
				return kv.Op{Key: benchKey(i * 7919 % 10000), Value: benchValue, Expect: kv.AnyRevision}
			})
		})
	}
}

func benchCommit(b *testing.B, writers int, op func(int) kv.Op) {
	s := benchStore(b)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range writers {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= b.N; i = int(next.Add(1)) {
				if res, err := s.Commit(b.Context(), op(i)); err != nil || !res.Committed {
					b.Errorf("commit: %+v, %v", res, err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

func benchFill(b *testing.B, s *Store, n int) {
	b.Helper()
	for i := 0; i < n; {
		var ops []kv.Op
		for range min(100, n-i) {
			ops = append(ops, kv.Op{Key: benchKey(i), Value: benchValue, Expect: kv.AnyRevision})
			i++
		}
		if _, err := s.Commit(b.Context(), ops...); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s := benchStore(b)
	benchFill(b, s, 10000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i += 7919
		if e, _, err := s.Get(b.Context(), benchKey(i%10000), 0); e == nil || err != nil {
			b.Fatal(e, err)
		}
	}
}

// BenchmarkCurrentRevision measures the request for the newest revision, which a consistent read from the
// cache requires.
func BenchmarkCurrentRevision(b *testing.B) {
	s := benchStore(b)
	for _, readers := range []int{1, 100} {
		b.Run(fmt.Sprint(readers), func(b *testing.B) {
			b.SetParallelism(readers)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if _, err := s.CurrentRevision(b.Context()); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func BenchmarkRange10k(b *testing.B) {
	s := benchStore(b)
	benchFill(b, s, 10000)
	for _, req := range []kv.RangeRequest{{Start: "/"}, {Start: "/", Limit: 500}, {Start: "/", CountOnly: true}} {
		b.Run(fmt.Sprintf("limit=%d,count=%t", req.Limit, req.CountOnly), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if res, err := s.Range(b.Context(), req); err != nil || res.Count != 10000 {
					b.Fatal(res.Count, err)
				}
			}
		})
	}
}
