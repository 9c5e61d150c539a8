package embedded

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// BenchmarkRewriteLoad rewrites 1,000 keys 300 times each with a short retention, like leases and statuses.
// The values have 1 KiB, half of it random. It reports the maximum and the final disk usage; the current
// values have 1 MB.
func BenchmarkRewriteLoad(b *testing.B) {
	for b.Loop() {
		dir := b.TempDir()
		s := open(b, Config{Dir: dir, Retention: time.Second})
		var wg sync.WaitGroup
		const writers, keys, rounds = 32, 1000, 300
		for w := range writers {
			wg.Go(func() {
				for i := w; i < keys*rounds; i += writers {
					op := kv.Op{Key: fmt.Sprintf("/registry/leases/n/%d", i%keys), Value: engineValue(i), Expect: kv.AnyRevision}
					if _, err := s.Commit(b.Context(), op); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		most := int64(0)
		for running := true; running; {
			select {
			case <-done:
				running = false
			case <-time.After(50 * time.Millisecond):
			}
			most = max(most, diskUse(b, dir))
		}
		if err := s.Compact(b.Context(), kv.Revision(s.published.Load())); err != nil {
			b.Fatal(err)
		}
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			most = max(most, diskUse(b, dir))
		}
		b.ReportMetric(float64(most)/(1<<20), "MiB-most")
		b.ReportMetric(float64(diskUse(b, dir))/(1<<20), "MiB-end")
		m := s.engine.db.Metrics()
		b.ReportMetric(float64(m.WAL.BytesWritten)/(1<<20), "MiB-log")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
