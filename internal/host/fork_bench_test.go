package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"mainstay.dev/mainstay/internal/host/fleet"
)

// BenchmarkFork forks a control plane with 100,000 objects.
func BenchmarkFork(b *testing.B) {
	const namespaces, each, forks = 10, 10_000, 20
	config := Config{Storage: StorageConfig{DataDir: b.TempDir()}}
	s := start(b, config)
	source := s.tenant(b, "source", `{}`)
	var group errgroup.Group
	group.SetLimit(32)
	text := strings.Repeat("text ", 100)
	for i := range namespaces {
		source.must(b, "POST", "/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":"n%d"}}`, i))
		for j := range each {
			group.Go(func() error {
				source.must(b, "POST", fmt.Sprintf("/api/v1/namespaces/n%d/configmaps", i), fmt.Sprintf(`{"metadata":{"name":"c%d"},"data":{"k":%q}}`, j, text))
				return nil
			})
		}
	}
	_ = group.Wait()
	firstList := func(of *running, name string) {
		of.must(b, "GET", "/api/v1/namespaces/default", "")
		began := time.Now()
		of.must(b, "GET", "/api/v1/namespaces/n0/configmaps", "")
		b.ReportMetric(float64(time.Since(began).Milliseconds()), name+"-list-ms")
	}
	s.closeAll(b, "source")
	firstList(source, "source")

	disk := diskUse(b, config.Storage.DataDir)
	var creation time.Duration
	for i := range forks {
		name := fmt.Sprint("fork-", i)
		began := time.Now()
		s.declare(b, name, `{"from":{"controlPlane":"source"}}`)
		s.awaitPhase(b, name, "Ready")
		creation += time.Since(began)
	}
	b.ReportMetric(float64(creation.Microseconds())/forks, "create-µs")
	b.ReportMetric(float64(diskUse(b, config.Storage.DataDir)-disk)/forks, "disk-bytes")
	before, _ := memoryUse()
	first := s.enter(b, "fork-0")
	began := time.Now()
	first.must(b, "GET", "/api/v1/namespaces/n0/configmaps/c7", "")
	b.ReportMetric(float64(time.Since(began).Microseconds()), "open-µs")
	after, _ := memoryUse()
	b.ReportMetric(float64(after-before), "open-bytes")
	firstList(s.enter(b, "fork-1"), "fork")
	write := func(of *running) time.Duration {
		fastest := time.Hour
		for i := range 500 {
			began := time.Now()
			of.must(b, "POST", "/api/v1/namespaces/default/configmaps", fmt.Sprintf(`{"metadata":{"name":"w%d"},"data":{"k":"v"}}`, i))
			fastest = min(fastest, time.Since(began))
		}
		return fastest
	}
	inFork, inSource := write(first), write(source)
	b.ReportMetric(float64(inSource.Microseconds()), "source-write-µs")
	b.ReportMetric(float64(inFork.Microseconds()), "fork-write-µs")

	for i := range 100 {
		first.must(b, "POST", "/api/v1/namespaces/n1/configmaps", fmt.Sprintf(`{"metadata":{"name":"new%d"},"data":{"k":"v"}}`, i))
	}
	began = time.Now()
	first.must(b, "GET", fleet.ChangesPath, "")
	b.ReportMetric(float64(time.Since(began).Microseconds()), "diff-µs") // of 600 changes
	from := "fork-0"
	for i := range 10 {
		name := fmt.Sprint("deep-", i)
		s.tenant(b, name, fmt.Sprintf(`{"from":{"controlPlane":%q}}`, from))
		from = name
	}
	s.closeAll(b, "source", "fork-0", "fork-1")
	firstList(s.enter(b, from), "deep")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkManyForks creates 1,000 forks with 10 changed objects each.
func BenchmarkManyForks(b *testing.B) {
	const objects, forks, changes = 200, 1000, 10
	config := Config{Storage: StorageConfig{DataDir: b.TempDir()}, ControlPlanes: ControlPlanesConfig{Idle: time.Second}}
	s := start(b, config)
	source := s.tenant(b, "source", `{}`)
	for i := range objects {
		source.createConfigMap(b, fmt.Sprint("c", i), "source")
	}
	before, _ := memoryUse()
	disk := diskUse(b, config.Storage.DataDir)
	began := time.Now()
	var group errgroup.Group
	group.SetLimit(8)
	names := make([]string, forks)
	for i := range forks {
		names[i] = fmt.Sprint("fork-", i)
		group.Go(func() error {
			fork := s.tenant(b, names[i], `{"from":{"controlPlane":"source"}}`)
			for j := range changes {
				fork.setConfigMap(b, fmt.Sprint("c", j), names[i])
			}
			fork.admin.CloseIdleConnections()
			return nil
		})
	}
	_ = group.Wait()
	b.ReportMetric(float64(time.Since(began).Milliseconds())/forks, "create-and-change-ms")
	s.closeAll(b, names...)
	after, _ := memoryUse()
	b.ReportMetric(float64(after-before), "closed-bytes")
	b.ReportMetric(float64(diskUse(b, config.Storage.DataDir)-disk), "disk-bytes")
	b.ReportMetric(0, "ns/op")
}
