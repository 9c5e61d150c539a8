package fleet_test

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/apitest"
	"mainstay.dev/mainstay/internal/apitest/race"
	"mainstay.dev/mainstay/test/testserver"
)

// TestCostOfOpen checks how much memory and how many goroutines an open control plane without requests uses. It
// does not run in parallel with other tests, because their memory would be counted. ADR 39 contains the
// measured values; the limits leave a margin.
func TestCostOfOpen(t *testing.T) {
	const (
		planes        = 20
		maxBytes      = 450 << 10
		maxGoroutines = 6
	)
	server := apitest.Start(t)
	client, err := rest.HTTPClientFor(server.Config()) // one connection for all control planes
	if err != nil {
		t.Fatal(err)
	}
	open := func() {
		t.Helper()
		plane := server.ControlPlane(t)
		testserver.Eventually(t, time.Minute, func() error {
			response, err := client.Get(plane.URL() + "/api/v1/namespaces/kube-system/serviceaccounts/default") // a controller creates it
			if err != nil {
				return err
			}
			if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
				return fmt.Errorf("code %d: %w", response.StatusCode, err)
			}
			return nil
		})
	}
	open() // allocates the data that all control planes share
	bytesBefore, goroutinesBefore := use(t)
	for range planes {
		open()
	}
	bytesAfter, goroutinesAfter := use(t)
	if each := (bytesAfter - bytesBefore) / planes; each > maxBytes && !race.Enabled {
		t.Errorf("an open control plane uses %d bytes, at most %d are expected", each, maxBytes)
	}
	if each := float64(goroutinesAfter-goroutinesBefore) / planes; each > maxGoroutines {
		t.Errorf("an open control plane has %.1f goroutines, at most %d are expected", each, maxGoroutines)
	}
	t.Logf("an open control plane uses %d bytes and %.1f goroutines", (bytesAfter-bytesBefore)/planes, float64(goroutinesAfter-goroutinesBefore)/planes)
}

// use waits until the number of goroutines is stable. It returns the memory in use, in bytes, and the
// number of goroutines.
func use(t *testing.T) (memory int64, goroutines int) {
	t.Helper()
	last := -1
	testserver.Eventually(t, time.Minute, func() error {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		memory, goroutines = int64(m.HeapAlloc+m.StackInuse), runtime.NumGoroutine()
		if goroutines != last {
			last = goroutines
			return fmt.Errorf("%d goroutines are running", goroutines)
		}
		return nil
	})
	return memory, goroutines
}
