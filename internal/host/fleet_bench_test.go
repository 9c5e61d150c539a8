package host

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/test/testserver"
)

// memoryUse returns the heap and stack memory in use, in bytes, and the number of goroutines. It first runs the
// garbage collector.
func memoryUse() (bytes uint64, goroutines int) {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse, runtime.NumGoroutine()
}

// BenchmarkControlPlanes creates control planes, and sends a list request and a watch request to each control
// plane over one connection. The memory use of open control planes is measured after a restart, so that it does
// not include recent writes in the caches of the store. The server and the client share the process; the client
// has one goroutine for each watch.
func BenchmarkControlPlanes(b *testing.B) {
	config := Config{Storage: StorageConfig{DataDir: b.TempDir()}}
	config.Listen.ExternalHostname = "localhost:6443" // the listener has another port after a restart
	s := start(b, config)
	const planes = 100
	began := time.Now()
	for i := range planes {
		s.declare(b, fmt.Sprint("p", i), `{}`)
	}
	for i := range planes {
		s.awaitPhase(b, fmt.Sprint("p", i), "Ready")
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/planes, "create-µs")
	b.ReportMetric(float64(s.openAll(b, planes).Microseconds())/planes, "open-µs")

	s = s.restart(b, config)
	s.openAll(b, 1) // loads the data that all control planes share
	closed, goroutines := memoryUse()
	s.openAll(b, planes)
	for i := 1; i < planes; i++ {
		s.watch(b, fmt.Sprintf("/clusters/p%d/api/v1/configmaps", i))
	}
	open, now := memoryUse()
	b.ReportMetric(float64(open-closed)/(planes-1), "open-bytes")
	b.ReportMetric(float64(now-goroutines)/(planes-1), "goroutines")
	b.ReportMetric(0, "ns/op")
}

// openAll opens the control planes with the numbers [0, planes). It returns the total duration of their first
// requests.
func (r *running) openAll(b *testing.B, planes int) (opening time.Duration) {
	b.Helper()
	for i := range planes {
		began := time.Now()
		r.must(b, "GET", fmt.Sprintf("/clusters/p%d/api/v1/namespaces", i), "")
		opening += time.Since(began)
		r.awaitControllers(b, i)
	}
	return opening
}

// watch opens a watch and reads the initial events. The watch stays open until the benchmark ends.
func (r *running) watch(b *testing.B, path string) {
	b.Helper()
	query := "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	request, err := http.NewRequestWithContext(b.Context(), "GET", r.URL+path+query, nil)
	if err != nil {
		b.Fatal(err)
	}
	response, err := r.admin.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = response.Body.Close() })
	events := bufio.NewReader(response.Body)
	for {
		event, err := events.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		if strings.Contains(event, metav1.InitialEventsAnnotationKey) {
			return
		}
	}
}

// awaitControllers opens the control plane with the given number, and waits until its controllers have
// processed the default objects.
func (r *running) awaitControllers(b *testing.B, number int) {
	b.Helper()
	testserver.Eventually(b, time.Minute, func() error {
		for _, object := range []string{"serviceaccounts/default", "configmaps/kube-root-ca.crt"} {
			if code, _ := r.do(b, "GET", fmt.Sprintf("/clusters/p%d/api/v1/namespaces/kube-system/%s", number, object), ""); code != http.StatusOK {
				return fmt.Errorf("get %s of p%d: code %d", object, number, code)
			}
		}
		return nil
	})
}

// BenchmarkManyControlPlanes measures a server with 10,000 control planes, of which 100 are in use. The memory
// use of closed control planes is the additional memory of the second half of them, measured after a restart.
// It includes neither recent changes nor the caches of the store.
func BenchmarkManyControlPlanes(b *testing.B) {
	const planes, busy, requests = 10_000, 100, 2_000
	config := Config{Storage: StorageConfig{DataDir: b.TempDir()}}
	config.Listen.ExternalHostname = "localhost:6443" // the listener has another port after a restart
	s := start(b, config)
	before, _ := memoryUse()
	disk := diskUse(b, config.Storage.DataDir)
	s.declareMany(b, 0, planes/2)
	s = s.restart(b, config)
	half, _ := memoryUse()
	began := time.Now()
	s.declareMany(b, planes/2, planes)
	b.ReportMetric(float64(time.Since(began).Microseconds())/(planes/2), "create-µs")
	created, _ := memoryUse()
	b.ReportMetric(float64(created-before)/planes, "created-bytes")
	b.ReportMetric(float64(diskUse(b, config.Storage.DataDir)-disk)/planes, "closed-disk-bytes")
	began = time.Now()
	s = s.restart(b, config)
	restarted := time.Since(began)
	b.ReportMetric(float64(restarted.Milliseconds()), "start-ms")
	closed, _ := memoryUse()
	b.ReportMetric((float64(closed)-float64(half))/(planes/2), "closed-bytes")
	began = time.Now()
	s.must(b, "GET", "/clusters/p0/api/v1/namespaces/default", "")
	b.ReportMetric(float64((restarted + time.Since(began)).Milliseconds()), "start-and-open-ms")

	// get returns the mean time of a GET request. It sends inRow requests to each of the first control
	// planes in turn; of is the number of these control planes. The paths always differ, because HPACK
	// compresses repeated paths.
	get := func(of, inRow int) time.Duration {
		for i := range of {
			s.awaitControllers(b, i)
			s.must(b, "GET", fmt.Sprintf("/clusters/p%d/api/v1/namespaces/default", i), "")
		}
		began := time.Now()
		for i := range requests {
			s.must(b, "GET", fmt.Sprintf("/clusters/p%d/api/v1/namespaces/default?request=%d", i/inRow%of, i%busy), "")
		}
		return time.Since(began) / requests
	}
	one, alternating, inRow := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for range 5 { // use the fastest round, which other work has disturbed the least
		one, alternating, inRow = min(one, get(1, 1)), min(alternating, get(busy, 1)), min(inRow, get(busy, 40))
	}
	b.ReportMetric(float64(one.Nanoseconds())/1000, "get-one-µs")
	b.ReportMetric(float64(alternating.Nanoseconds())/1000, "get-busy-µs")
	b.ReportMetric(float64(inRow.Nanoseconds())/1000, "get-busy-in-row-µs")

	b.ReportMetric(0, "ns/op")
}

// declareMany creates the control planes with the numbers [from, to), and waits until they are ready.
func (r *running) declareMany(b *testing.B, from, to int) {
	b.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	for i := from; i < to; i++ {
		group.Go(func() error {
			r.declare(b, fmt.Sprint("p", i), `{}`)
			return nil
		})
	}
	_ = group.Wait()
	for i := from; i < to; i++ {
		r.awaitPhase(b, fmt.Sprint("p", i), "Ready")
	}
}

// restart restarts the server, and waits until it has read all ControlPlane objects.
func (r *running) restart(b *testing.B, config Config) *running {
	b.Helper()
	r.end(b)
	r.host = nil // otherwise, the memory of the old host would be counted
	s := start(b, config)
	if code, body := s.do(b, "GET", "/clusters/missing/api", ""); code != http.StatusNotFound {
		b.Fatalf("request to a missing control plane: %d %s, want code 404", code, body)
	}
	return s
}

// BenchmarkDeleteControlPlane deletes a control plane with 10,000 ConfigMaps. It measures the time from the
// request until the ControlPlane object no longer exists.
func BenchmarkDeleteControlPlane(b *testing.B) {
	s := start(b, Config{Storage: StorageConfig{DataDir: b.TempDir()}})
	var total time.Duration
	for n := range b.N {
		name := fmt.Sprint("p", n)
		plane := s.tenant(b, name, `{}`)
		var group errgroup.Group
		group.SetLimit(16)
		for i := range 10_000 {
			group.Go(func() error {
				plane.must(b, "POST", configMapPath, fmt.Sprintf(`{"metadata":{"name":"c%d"},"data":{"key":"value"}}`, i))
				return nil
			})
		}
		_ = group.Wait()
		began := time.Now()
		s.must(b, "DELETE", controlPlanePath+"/"+name, "")
		s.awaitCode(b, controlPlanePath+"/"+name, http.StatusNotFound)
		total += time.Since(began)
	}
	b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "delete-ms")
	b.ReportMetric(0, "ns/op")
}

// diskUse returns the total size of all files below a directory, in bytes.
func diskUse(b *testing.B, dir string) (bytes int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a compaction can delete a file
		b.Fatal(err)
	}
	return bytes
}
