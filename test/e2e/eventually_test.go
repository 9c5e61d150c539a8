package e2e

import (
	"testing"
	"time"
)

// eventually calls the condition until it returns no error, and fails the test with the last one after a minute.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
