package e2e

import (
	"testing"
	"time"

	"mainstay.dev/mainstay/test/testserver"
)

// eventually calls the condition until it returns nil. It fails the test with the last error after a
// minute.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	testserver.Eventually(t, time.Minute, condition)
}
