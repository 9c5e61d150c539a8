package embedded

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
)

// Minimum and maximum delay between two checks of the disk during a repair.
const (
	repairFirst = 100 * time.Millisecond
	repairLast  = 5 * time.Second
)

// handleWriteError is called once per engine, after the first failed disk write. It must not block, because
// Pebble may hold locks.
func (s *Store) handleWriteError(cause error) {
	broken := fmt.Errorf("writes are suspended: %w: %w", kv.ErrUnavailable, cause)
	if pebblefs.IsFull(cause) {
		broken = fmt.Errorf("writes are suspended: %w: %w", kv.ErrNoSpace, cause)
	}
	if s.rejectWrites(broken) {
		s.log.Error("a write to the store failed; writes are rejected until the disk accepts them again", "dir", s.disk.dir, "err", pebblefs.FirstLine(cause))
	}
}

// rejectWrites rejects writes until repair has ended. It reports whether writes were accepted before.
func (s *Store) rejectWrites(broken error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		s.disk.abandonIfFailed()
		return false
	}
	if s.mu.broken != nil {
		return false
	}
	s.mu.broken = broken
	// The pending group was not passed to the engine, so its transactions fail here. commitLoop fails
	// the group in progress.
	if g := s.mu.pending; g != nil {
		s.mu.pending, g.err = nil, broken
		close(g.done)
	}
	close(s.mu.brokenCh)
	s.tasks.Go(s.repair)
	return true
}

// repair waits until the disk is writable, and reopens the store. On a full disk it reopens the store
// once without waiting, because the failed engine may have filled the disk with an incomplete table.
func (s *Store) repair() {
	wait, reopened := repairFirst, false
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, repairLast)
		err := s.disk.probe()
		if pebblefs.IsFull(err) && s.disk.reserve.release() {
			err = s.disk.probe()
		}
		if err == nil || pebblefs.IsFull(err) && !reopened {
			reopened = true
			err = s.reopen()
		}
		if err == nil {
			s.log.Info("the store accepts writes again", "dir", s.disk.dir)
			return
		}
		s.log.Warn("the store is still not writable", "dir", s.disk.dir, "err", pebblefs.FirstLine(err))
	}
}

// probe writes a temporary file of the size of two memtables, and returns an error if that fails.
func (d *disk) probe() (err error) {
	name := filepath.Join(d.dir, "PROBE")
	f, err := d.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("probe the disk: %w", err)
	}
	block := make([]byte, 64<<10)
	for n := int64(0); n < 2*d.memTableSize() && err == nil; n += int64(len(block)) {
		_, err = f.Write(block)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close(), d.fs.Remove(name)); err != nil {
		return fmt.Errorf("probe the disk: %w", err)
	}
	return nil
}

// reopen replaces the engine. Commits that were in progress at the time of the failure may be on disk; if so,
// they are published now.
func (s *Store) reopen() error {
	s.disk.abandonIfFailed()
	s.history.Lock()
	defer s.history.Unlock()
	s.life.Lock()
	defer s.life.Unlock()
	if s.engine != nil {
		if err := s.engine.close(); err != nil {
			s.log.Warn("close the store after a failed write", "dir", s.disk.dir, "err", pebblefs.FirstLine(err))
		}
		s.engine = nil
	}
	refusal, err := s.openEngine()
	if err = errors.Join(refusal, err); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.broken = nil
	s.mu.brokenCh = make(chan struct{})
	return nil
}

// abandonIfFailed abandons the newest guard if a write has failed, which releases its blocked writes.
func (d *disk) abandonIfFailed() {
	if g := d.guard.Load(); g != nil && g.Failure() != nil {
		g.Abandon()
	}
}
