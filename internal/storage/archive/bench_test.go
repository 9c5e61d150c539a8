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

// podValues returns encoded objects of 2 KiB that differ in a few bytes, like versions of a pod.
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
