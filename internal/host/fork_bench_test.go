package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
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
	b.ReportMetric(0, "ns/op")
}
