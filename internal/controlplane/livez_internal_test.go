package controlplane

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/telemetry"
)

// TestIgnoresUnfinished checks that during the grace period, a check of /livez passes if its hook
// is not finished, but fails for other errors.
func TestIgnoresUnfinished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var failure error
		check := ignoresUnfinished(telemetry.Check{Name: "c", Run: func(context.Context) error { return failure }}, time.Now().Add(10*time.Second))
		broken := errors.New("broken")
		for _, want := range []struct{ failure, got error }{{nil, nil}, {bootstrap.ErrNotFinished, nil}, {broken, broken}} {
			failure = want.failure
			if got := check.Run(t.Context()); got != want.got {
				t.Errorf("during the grace period: %v for %v", got, failure)
			}
		}
		time.Sleep(10 * time.Second)
		failure = bootstrap.ErrNotFinished
		if got := check.Run(t.Context()); got != failure {
			t.Errorf("after the grace period: %v", got)
		}
	})
}
