package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// backlog simulates a database with pending compactions. Each compaction ends immediately, in its own
// goroutine.
type backlog struct {
	s          *scheduler
	left       atomic.Int64
	running    atomic.Int64
	overlapped atomic.Bool
	all        sync.WaitGroup
}

func (b *backlog) GetAllowedWithoutPermission() int { return 1 }

func (b *backlog) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	return b.left.Load() > 0, pebble.WaitingCompaction{}
}

func (b *backlog) Schedule(handle pebble.CompactionGrantHandle) bool {
	if b.left.Add(-1) < 0 {
		b.left.Add(1)
		return false
	}
	go func() {
		if b.running.Add(1) > 1 {
			b.overlapped.Store(true)
		}
		b.running.Add(-1)
		handle.Done()
		b.trySchedule()
		b.all.Done()
	}()
	return true
}

// trySchedule does the same as Pebble after each flush and each compaction.
func (b *backlog) trySchedule() {
	if b.left.Load() == 0 {
		return
	}
	if ok, handle := b.s.TrySchedule(); ok && !b.Schedule(handle) {
		handle.Done()
	}
}

// TestScheduler checks that all pending compactions run, one at a time.
func TestScheduler(t *testing.T) {
	t.Parallel()
	for round := range 50 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			b := &backlog{s: newScheduler()}
			b.s.Register(2, b)
			const n = 100
			b.left.Store(n)
			b.all.Add(n)
			b.trySchedule()
			b.all.Wait()
			if b.overlapped.Load() {
				t.Error("two compactions ran concurrently")
			}
			b.s.Unregister()
			if ok, _ := b.s.TrySchedule(); ok {
				t.Error("a compaction was granted after Unregister")
			}
		})
	}
}

// TestEndOfWaitingCompaction checks that a compaction which waits for another compaction ends with an error
// when compactions are paused, when a disk write fails, and when its context ends, and that the store is
// repaired after the failure.
func TestEndOfWaitingCompaction(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  func(e *engine, cancel func())
		want error
	}{
		"paused":      {func(e *engine, _ func()) { e.scheduler.setPaused(true) }, kv.ErrNoSpace},
		"write error": {func(e *engine, _ func()) { e.guard.Fail(fmt.Errorf("write: %w", syscall.EIO)) }, kv.ErrUnavailable},
		"canceled":    {func(_ *engine, cancel func()) { cancel() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, Config{Dir: "d", FS: vfs.NewCrashableMem()})
			put(t, s, "a", "1")
			e := s.engine                                // the repair replaces it
			if ok, _ := e.scheduler.TrySchedule(); !ok { // the compaction never ends
				t.Fatal("another compaction runs")
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- s.reclaim(ctx) }()
			await(t, "a waiting compaction", func() bool {
				waits, _ := e.scheduler.db.GetWaitingCompaction()
				return waits
			})
			test.end(e, cancel)
			err := <-ended
			for _, other := range []error{kv.ErrNoSpace, kv.ErrUnavailable, context.Canceled} {
				if errors.Is(err, other) != (other == test.want) {
					t.Errorf("compaction: %v, want %v", err, test.want)
				}
			}
			if errors.Is(test.want, kv.ErrUnavailable) {
				await(t, "repair", func() bool {
					_, err := s.Commit(t.Context(), kv.Op{Key: "b", Expect: kv.AnyRevision})
					return err == nil
				})
			}
		})
	}
}
