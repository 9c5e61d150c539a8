package host

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"
)

// memoryUse returns the heap in use, in bytes, and the number of goroutines, after they have settled.
func memoryUse() (bytes uint64, goroutines int) {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse, runtime.NumGoroutine()
}

// BenchmarkControlPlanes creates control planes, and sends a list and a watch to each, over one connection.
// The server and the client share the process; the client has a goroutine for each watch.
func BenchmarkControlPlanes(b *testing.B) {
	s := start(b, Config{})
	const planes = 100
	began := time.Now()
	for i := range planes {
		s.declare(b, fmt.Sprint("p", i), `{}`)
	}
	for i := range planes {
		s.awaitPhase(b, fmt.Sprint("p", i), "Ready")
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/planes, "create-µs")
	closed, goroutines := memoryUse()
	began = time.Now()
	for i := range planes {
		s.must(b, "GET", fmt.Sprintf("/clusters/p%d/api/v1/namespaces", i), "")
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/planes, "open-µs")
	for i := range planes {
		request, err := http.NewRequestWithContext(b.Context(), "GET", fmt.Sprintf("%s/clusters/p%d/api/v1/configmaps?watch=true&resourceVersion=0", s.URL, i), nil)
		if err != nil {
			b.Fatal(err)
		}
		response, err := s.admin.Do(request)
		if err != nil {
			b.Fatal(err)
		}
		defer response.Body.Close()
	}
	open, now := memoryUse()
	b.ReportMetric(float64(open-closed)/planes, "open-bytes")
	b.ReportMetric(float64(now-goroutines)/planes, "goroutines")
	b.ReportMetric(0, "ns/op")
}
