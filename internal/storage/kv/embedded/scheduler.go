package embedded

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// scheduler runs at most one compaction at a time. Pebble's own scheduler does the same with this
// limit, but also polls ten times per second whether the limit has changed, which would be the
// largest CPU cost of an idle store.
//
// Polling is not necessary: the permitted compactions change only when a compaction ends, which
// calls Done, or when a pause ends; and Pebble itself looks for compactions after each flush and
// each Done.
type scheduler struct {
	db   pebble.DBForCompaction
	idle sync.Cond // signalled when granting becomes false
	mu   struct {
		sync.Mutex
		running bool
		// paused is set while no compaction may start, because its output might not fit on the disk. pausedCh
		// is closed when paused is set, and replaced when it is cleared.
		paused   bool
		pausedCh chan struct{}
		// granting is set while grantLocked is calling db without the lock.
		granting     bool
		unregistered bool
	}
}

var (
	_ pebble.CompactionScheduler   = (*scheduler)(nil)
	_ pebble.CompactionGrantHandle = (*scheduler)(nil)
)

func newScheduler() *scheduler {
	s := &scheduler{}
	s.idle.L = &s.mu.Mutex
	s.mu.pausedCh = make(chan struct{})
	return s
}

// Register implements pebble.CompactionScheduler.
func (s *scheduler) Register(_ int, db pebble.DBForCompaction) { s.db = db }

// Unregister implements pebble.CompactionScheduler. No method of the database is called after it
// returns.
func (s *scheduler) Unregister() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.unregistered = true
	for s.mu.granting {
		s.idle.Wait()
	}
}

// TrySchedule implements pebble.CompactionScheduler.
func (s *scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.running || s.mu.paused || s.mu.granting || s.mu.unregistered {
		return false, nil
	}
	s.mu.running = true
	return true, s
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler. The limit is always one
// compaction.
func (s *scheduler) UpdateGetAllowedWithoutPermission() {}

// setPaused prevents new compactions from starting, or permits them again. Pausing does not block.
func (s *scheduler) setPaused(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if paused == s.mu.paused {
		return
	}
	s.mu.paused = paused
	if paused {
		close(s.mu.pausedCh)
		return
	}
	s.mu.pausedCh = make(chan struct{})
	if s.db != nil {
		s.grantLocked()
	}
}

// whenPaused returns a channel that is closed as soon as compactions are paused.
func (s *scheduler) whenPaused() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.pausedCh
}

// Done implements pebble.CompactionGrantHandle. The compaction has ended, and the next one may start.
func (s *scheduler) Done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.running = false
	s.grantLocked()
}

// grantLocked starts the next waiting compaction. It releases the lock during the call.
func (s *scheduler) grantLocked() {
	if s.mu.granting {
		return // the loop below, in another goroutine, continues
	}
	// The loop is required because a granted compaction may have ended, and TrySchedule may have rejected the
	// next one, before the condition is checked again.
	for more := true; more && !s.mu.running && !s.mu.paused && !s.mu.unregistered; {
		s.mu.granting, s.mu.running = true, true
		s.mu.Unlock()
		waiting, _ := s.db.GetWaitingCompaction()
		more = waiting && s.db.Schedule(s)
		s.mu.Lock()
		s.mu.granting = false
		if !more {
			s.mu.running = false
		}
	}
	s.idle.Broadcast()
}

// Started implements pebble.CompactionGrantHandle.
func (s *scheduler) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (s *scheduler) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (s *scheduler) CumulativeStats(pebble.CompactionGrantHandleStats) {}
