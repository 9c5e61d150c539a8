package testserver

import (
	"testing"
	"time"
)

// minPause and maxPause limit the pause between two calls of a condition.
const (
	minPause = 5 * time.Millisecond
	maxPause = 250 * time.Millisecond
)

// Eventually calls condition until it returns nil. After the timeout, it ends the test with the last error. The
// pauses between calls grow to a tenth of the elapsed time, so that a long wait uses little CPU time.
// Eventually must be called on the goroutine of the test.
func Eventually(t testing.TB, timeout time.Duration, condition func() error) {
	t.Helper()
	for start := time.Now(); ; {
		err := condition()
		if err == nil {
			return
		}
		elapsed := time.Since(start)
		if elapsed > timeout {
			t.Fatalf("after %s: %v", timeout, err)
		}
		time.Sleep(min(max(elapsed/10, minPause), maxPause))
	}
}
