package embedded

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
)

// stall measures the duration of the current group write, because a write to a hanging disk returns no error.
// err is safe for concurrent use; only commitLoop calls begin and end.
type stall struct {
	after time.Duration
	log   *slog.Logger
	dir   string
	// since is the start of the current write, in Unix nanoseconds; 0 if there is none.
	since atomic.Int64
	// reported is set after the current write was logged.
	reported atomic.Bool
	timer    *time.Timer
}

func newStall(after time.Duration, d *disk) *stall {
	if after == 0 {
		after = pebblefs.StallAfter
	}
	w := &stall{after: after, log: d.log, dir: d.dir}
	w.timer = time.AfterFunc(time.Hour, w.report)
	w.timer.Stop()
	return w
}

func (w *stall) begin(now time.Time) {
	w.since.Store(now.UnixNano())
	w.timer.Reset(w.after)
}

func (w *stall) end(took time.Duration) {
	w.timer.Stop()
	w.since.Store(0)
	if w.reported.Swap(false) {
		w.log.Warn("the write to the store has ended", "dir", w.dir, "took", took)
	}
}

func (w *stall) report() {
	if err := w.err(); err != nil && !w.reported.Swap(true) {
		w.log.Error("a write to the store does not end; later writes wait for it", "dir", w.dir, "after", w.after)
	}
}

// err returns an error that wraps kv.ErrUnavailable if the current write exceeds w.after.
func (w *stall) err() error {
	since := w.since.Load()
	if since == 0 {
		return nil
	}
	age := time.Since(time.Unix(0, since))
	if age < w.after {
		return nil
	}
	return fmt.Errorf("a write to the disk of %s has been under way for %s: %w", w.dir, age.Round(time.Millisecond), kv.ErrUnavailable)
}
