package backup

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// BenchmarkRestore restores 100,000 objects of 1.5 KB after 1,000,000 changes.
func BenchmarkRestore(b *testing.B) {
	const objects, changes = 100_000, 1_000_000
	target := newMemory()
	random := rand.New(rand.NewPCG(1, 2))
	text := strings.Repeat(`{"name":"a-field","value":"some text"},`, 36)
	value := func() []byte { return fmt.Appendf(nil, "%016x%016x%s", random.Uint64(), random.Uint64(), text) }
	key := func(n int) string { return fmt.Sprintf("/registry/configmaps/default/%06d", n) }
	fill(b, target, func(w *embedded.SnapshotWriter) error {
		for n := range objects {
			if err := w.Put(embedded.Record{Entry: kv.Entry{Key: key(n), Value: value(), Created: 1, Modified: 1}}); err != nil {
				return err
			}
		}
		return nil
	})
	segment := newSegmentBuilder(1, time.Time{})
	upload := func() {
		if _, err := segment.put(b.Context(), target, "g", nil); err != nil {
			b.Fatal(err)
		}
		segment = newSegmentBuilder(segment.segment.Last, time.Time{})
	}
	for n := range changes {
		revision := kv.Revision(n + 2)
		event := kv.Event{Key: key(random.IntN(objects)), Value: value(), Created: 1, Revision: revision}
		if err := segment.add([]kv.Event{event}, nil); err != nil {
			b.Fatal(err)
		}
		if segment.size > maxSegment {
			upload()
		}
	}
	upload()
	catalog, err := ReadCatalog(b.Context(), target)
	if err != nil {
		b.Fatal(err)
	}
	plan, err := catalog.Plan(Moment{}, "")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := (&Source{Target: target}).Restore(b.Context(), plan, b.TempDir()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(catalog.Generations[0].Bytes())/(objects+changes), "B/version")
}

// fill uploads a base of revision 1.
func fill(b *testing.B, target Target, write func(*embedded.SnapshotWriter) error) {
	b.Helper()
	var buf bytes.Buffer
	object, err := newObjectWriter(&buf, nil)
	if err != nil {
		b.Fatal(err)
	}
	snapshot, err := embedded.NewSnapshotWriter(object, 1)
	if err != nil {
		b.Fatal(err)
	}
	if err := write(snapshot); err != nil {
		b.Fatal(err)
	}
	if err := snapshot.Close(); err != nil {
		b.Fatal(err)
	}
	if err := object.close(mark{}); err != nil {
		b.Fatal(err)
	}
	base := Base{Revision: 1, Time: time.Now()}
	base.setName("g")
	if err := target.Put(b.Context(), base.Name, &buf); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCommit measures commits of 32 writers, with and without a backup.
func BenchmarkCommit(b *testing.B) {
	for _, with := range []bool{false, true} {
		b.Run(fmt.Sprintf("backup=%t", with), func(b *testing.B) {
			backend, err := embedded.Open(embedded.Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer backend.Close()
			if with {
				w, err := Start(Config{Backend: backend, Target: newMemory()})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = w.Close(b.Context()) }()
			}
			text := strings.Repeat(`{"name":"a-field","value":"some text"},`, 50)
			b.ResetTimer()
			cpu := cpuTime()
			var writers sync.WaitGroup
			for n := range 32 {
				writers.Go(func() {
					for ; n < b.N; n += 32 {
						op := kv.Op{Key: fmt.Sprintf("/registry/pods/a/%d", n%1000), Value: fmt.Appendf(nil, "%d%s", n, text), Expect: kv.AnyRevision}
						if _, err := backend.Commit(b.Context(), op); err != nil {
							b.Error(err)
						}
					}
				})
			}
			writers.Wait()
			b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
