// Package alloctest checks in tests that code does not allocate memory.
package alloctest

import (
	"testing"

	"mainstay.dev/mainstay/internal/apitest/race"
)

// None reports an error with this name if f allocates memory. It calls f once to fill caches, and fails if
// 100 more calls allocate at least 100 times. With the race detector, it calls f once and checks nothing,
// because a sync.Pool then drops values at random. The test must not run in parallel with others.
func None(t *testing.T, name string, f func()) {
	t.Helper()
	if race.Enabled {
		f()
		return
	}
	if n := testing.AllocsPerRun(100, f); n > 0 {
		t.Errorf("%s: %.0f allocations, want none", name, n)
	}
}
