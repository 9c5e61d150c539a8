// Package alloctest checks in tests that code does not allocate memory.
package alloctest

import (
	"testing"

	"mainstay.dev/mainstay/internal/apitest/race"
)

// None reports an error with the given name if f allocates memory. It first calls f once to fill caches, and
// then 100 times; it reports an error if these calls allocate 100 times or more. With the race detector, it
// only calls f once and checks nothing, because a sync.Pool then drops values at random. The test must not run
// in parallel with other tests.
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
