package bootstrap

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestRunAfterFailure checks that a failed hook runs again even if the store does not change, and that no hook
// runs while the store does not change and no hook has failed.
func TestRunAfterFailure(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]int{"in every round": 1, "every minute": everyMinute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var failing atomic.Bool
				var runs atomic.Int32
				failing.Store(true)
				hook := &Hook{Name: "objects", every: every, run: func(context.Context) error {
					runs.Add(1)
					if failing.Load() {
						return errors.New("a webhook cannot be reached")
					}
					return nil
				}}
				hook.done.Store(true)
				b := &Bootstrap{hooks: []*Hook{hook}, config: Config{
					Revision: func(context.Context) (int64, error) { return 5, nil }, Logger: slog.New(slog.DiscardHandler),
				}}
				b.endpoints.bootstrap = b
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()
				go b.Run(ctx)
				time.Sleep(2*time.Minute + time.Second)
				failing.Store(false)
				runs.Store(0)
				time.Sleep(2 * time.Minute)
				if runs.Load() == 0 {
					t.Fatal("the hook did not run again after its failure")
				}
				runs.Store(0)
				time.Sleep(10 * time.Minute)
				if n := runs.Load(); n != 0 {
					t.Errorf("the hook ran %d times although nothing changed", n)
				}
				stop()
				synctest.Wait()
			})
		})
	}
}
