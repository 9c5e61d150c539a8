package history

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

func grant(t *testing.T, h *Holds, to, want kv.Revision) {
	t.Helper()
	if got, _ := h.Grant(to); got != want {
		t.Errorf("Grant(%d) is %d, want %d", to, got, want)
	}
}

func TestHolds(t *testing.T) {
	t.Parallel()
	h := NewHolds()
	h.Reset(5)
	if _, err := h.Add(t.Context(), 4, 0); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("hold of a compacted revision: %v", err)
	}
	grant(t, h, 0, 5)
	release, err := h.Add(t.Context(), 7, 0)
	if err != nil {
		t.Fatal(err)
	}
	grant(t, h, 6, 6)
	select {
	case <-h.Released():
		t.Error("Released received a value before a release")
	default:
	}
	grant(t, h, 9, 7)
	release()
	release()
	select {
	case <-h.Released():
	default:
		t.Error("Released received no value after a release that delayed compaction")
	}
	grant(t, h, 0, 9)
	if _, err := h.Add(t.Context(), 8, 0); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("hold of a revision permitted for compaction: %v", err)
	}
}

// TestHoldsEnd checks that a hold that is not released ends with its context or after its limit.
func TestHoldsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := NewHolds()
		ctx, cancel := context.WithCancel(t.Context())
		for at, x := range map[kv.Revision]struct {
			ctx   context.Context
			limit time.Duration
		}{3: {ctx, time.Hour}, 4: {t.Context(), time.Minute}, 5: {t.Context(), 0}} {
			if _, err := h.Add(x.ctx, at, x.limit); err != nil {
				t.Fatal(err)
			}
		}
		grant(t, h, 9, 3)
		cancel()
		synctest.Wait()
		grant(t, h, 0, 4)
		time.Sleep(time.Minute)
		got, expired := h.Grant(0)
		if got != 5 || len(expired) != 1 || expired[0] != (Expired{4, time.Minute}) {
			t.Errorf("Grant is %d, expired holds are %v", got, expired)
		}
		time.Sleep(24 * time.Hour)
		grant(t, h, 0, 5) // without a limit
		if n, age := h.Oldest(); n != 1 || age != 24*time.Hour+time.Minute {
			t.Errorf("%d holds, the oldest of %s", n, age)
		}
	})
}
