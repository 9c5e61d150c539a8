package archive

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/internal/storage/origin"
)

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// podValues returns a random value of 2 KiB for each key. Callers change a few bytes for each version, like
// updates of a pod.
func podValues(keys int) [][]byte {
	random := rand.NewChaCha8([32]byte{})
	values := make([][]byte, keys)
	for i := range values {
		values[i] = make([]byte, 2<<10)
		for at := range values[i] {
			values[i][at] = "abcdefghijklmnop"[random.Uint64()%16]
		}
	}
	return values
}

// BenchmarkCommit measures commits of 32 writers, with and without a history.
func BenchmarkCommit(b *testing.B) {
	for _, with := range []bool{false, true} {
		b.Run(fmt.Sprintf("history=%t", with), func(b *testing.B) {
			dir := b.TempDir()
			backend, err := embedded.Open(embedded.Config{Dir: filepath.Join(dir, "store")})
			if err != nil {
				b.Fatal(err)
			}
			defer backend.Close()
			var o []byte
			if with {
				a, err := Open(Config{Dir: filepath.Join(dir, "history"), Prefix: "/registry/"})
				if err != nil {
					b.Fatal(err)
				}
				defer a.Close()
				if err := a.Start(b.Context(), backend); err != nil {
					b.Fatal(err)
				}
				of := origin.Origin{Time: time.Now(), User: "system:serviceaccount:kube-system:deployment-controller", Verb: "update", FieldManager: "kube-controller-manager", UserAgent: "kube-controller-manager/v1.37.0 (linux/amd64)", AuditID: "38ba3534-16a2-4a5c-8f44-a88a523c1c3b"}
				o = of.Encode()
				defer func() { b.ReportMetric(a.sizeMetric()/float64(b.N), "disk-B/op") }()
			}
			values := podValues(1000)
			b.ResetTimer()
			cpu := cpuTime()
			var writers sync.WaitGroup
			for w := range 32 {
				writers.Go(func() {
					for n := w; n < b.N; n += 32 {
						value := append([]byte(nil), values[n%1000]...)
						copy(value[n%2000:], fmt.Sprint(n))
						_, err := backend.Commit(b.Context(), kv.Op{Key: fmt.Sprintf("/registry/pods/a/%d", n%1000), Value: value, Expect: kv.AnyRevision, Origin: o})
						if err != nil {
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

// fillArchive returns an archive with many versions of 2 KiB, without a backend.
func fillArchive(b *testing.B, keys, versions int) *Archive {
	b.Helper()
	a, err := Open(Config{Dir: filepath.Join(b.TempDir(), "history"), Prefix: "/registry/"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = a.Close() })
	f := &follower{a: a, db: a.db, chains: chains{}}
	values, entries := podValues(1000), make([]*kv.Entry, keys)
	revision := kv.Revision(1)
	for n := range versions {
		batch := kv.Batch{}
		for k := range keys {
			revision++
			value := append([]byte(nil), values[k%1000]...)
			copy(value[n*13%2000:], fmt.Sprint(revision))
			ev := kv.Event{Key: fmt.Sprintf("/registry/pods/a/%05d", k), Revision: revision, Value: value, Created: revision, Prev: entries[k]}
			if entries[k] != nil {
				ev.Created = entries[k].Created
			}
			entries[k] = &kv.Entry{Key: ev.Key, Value: value, Created: ev.Created, Modified: revision}
			batch.Events = append(batch.Events, ev)
		}
		batch.Revision = revision
		if err := f.archive(batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := a.db.flush(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(a.sizeMetric()/float64(keys*versions), "disk-B/version")
	return a
}

// BenchmarkPastList lists 10,000 keys as of an early revision, after 1,000,000 later writes.
func BenchmarkPastList(b *testing.B) {
	a := fillArchive(b, 10_000, 101)
	for _, at := range []kv.Revision{10_001, 500_001, a.Position()} {
		b.Run(fmt.Sprint(at), func(b *testing.B) {
			v := &View{a, at}
			for b.Loop() {
				res, err := v.Range(b.Context(), kv.RangeRequest{Start: "/registry/pods/", End: "/registry/pods0"})
				if err != nil || len(res.Entries) != 10_000 {
					b.Fatalf("%d entries, %v", len(res.Entries), err)
				}
			}
		})
	}
}

// BenchmarkVersions reads 1,000 versions of a key.
func BenchmarkVersions(b *testing.B) {
	a := fillArchive(b, 100, 1000)
	b.ResetTimer()
	for b.Loop() {
		n := 0
		err := a.Versions(b.Context(), "/registry/pods/a/00050", a.Position(), func(*Change) bool { n++; return true })
		if err != nil || n != 1000 {
			b.Fatalf("%d versions, %v", n, err)
		}
	}
}
