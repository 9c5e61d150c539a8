package testserver

import (
	"testing"
	"time"
)

// Eventually calls the condition until it returns nil. It fails the test with the last error after the
// timeout. It must be called on the goroutine of the test.
func Eventually(t testing.TB, timeout time.Duration, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", timeout, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
