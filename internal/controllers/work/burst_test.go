package work

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
)

// TestBurst checks that an idle queue has released the memory of a burst, which a map does not do when its
// entries are deleted.
func TestBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New(t.Context(), Config[int]{
			Name: "test", Workers: 1, Logger: slog.New(slog.DiscardHandler),
			Sync: func(context.Context, int) error { return nil },
		})
		for key := range 10 * maxIdleStates {
			q.Add(key)
		}
		synctest.Wait()
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(q.mu.states) != 0 || q.mu.peak != 0 {
			t.Errorf("the idle queue has %d states in a map of %d", len(q.mu.states), q.mu.peak)
		}
	})
}
