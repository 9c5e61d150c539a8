package testserver

import (
	"testing"
	"time"
)

// Eventually calls the condition until it returns no error, and fails the test with the last one when patience is over.
func Eventually(t testing.TB, patience time.Duration, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", patience, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
