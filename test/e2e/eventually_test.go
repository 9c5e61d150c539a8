package e2e

import (
	"testing"
	"time"

	"mainstay.dev/mainstay/test/testserver"
)

// eventually calls condition until it returns nil. After a minute, it ends the test with the last error.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	testserver.Eventually(t, time.Minute, condition)
}
