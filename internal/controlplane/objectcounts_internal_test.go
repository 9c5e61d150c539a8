package controlplane

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestFirstCountWait checks that a scrape does not wait for each control plane in turn.
func TestFirstCountWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, err := newObjectMetrics(prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			m.mu.planes[&objectCounts{counting: make(chan struct{})}] = struct{}{} // its count does not end
		}
		began := time.Now()
		m.Collect(make(chan prometheus.Metric, 1))
		if waited := time.Since(began); waited != firstCountWait {
			t.Errorf("the scrape waits for %s by the clock of the test, want %s", waited, firstCountWait)
		}
	})
}
