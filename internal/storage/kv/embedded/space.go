package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// A compaction writes its output before its input is removed. If the output does not fit on the
// disk, no compaction can succeed, and deletions free no space. A store therefore reserves as much
// free space as the size of its live files, up to maxHeadroom. With less free space, it releases
// the reserve and accepts deletions only, while compactions run as long as their output fits.
// awaitSpace ends this state. A quota has the same effect.
const (
	maxHeadroom = 1 << 30
	// minVolume is the minimum size of the volume of a store, in bytes.
	minVolume = 48 << 20
	// smallVolume is the size, in bytes, below which a store on the volume uses small memtables.
	smallVolume = 2 << 30
)

// MinQuota is the smallest useful quota, in bytes. The log files alone use up to 16 MiB.
const MinQuota = 64 << 20

// spaceSlack is the hysteresis of a store that accepts only deletions. Puts are accepted again when
// 1/spaceSlack of the quota is unused, and when 1/spaceSlack of the size of the live files, up to
// maxHeadroom, is free.
const spaceSlack = 16

// reclaimInterval is the minimum time between two calls of reclaim.
const reclaimInterval = 5 * time.Second

// usage returns the size of the volume and its free space, if they are known.
func (d *disk) usage() (usage vfs.DiskUsage, known bool) {
	usage, err := d.fs.GetDiskUsage(d.dir)
	return usage, err == nil && usage.TotalBytes > 0
}

// memTableSize returns the size of a memtable in bytes. The store has up to four of them on disk, as
// log files.
func (d *disk) memTableSize() int64 {
	if usage, known := d.usage(); known && usage.TotalBytes < smallVolume {
		return memTableBytes / 4
	}
	return memTableBytes
}

// checkVolume returns an error for a volume that is too small for a store.
func (d *disk) checkVolume() error {
	if usage, known := d.usage(); known && usage.TotalBytes < minVolume {
		return fmt.Errorf("the volume of data directory %s has %d MiB; a store needs at least %d MiB: %w", d.dir, usage.TotalBytes>>20, minVolume>>20, kv.ErrNoSpace)
	}
	return nil
}

// liveBytes returns the size of the tables and logs that are in use.
func liveBytes(m *pebble.Metrics) int64 {
	return int64(m.WAL.PhysicalSize + m.Table.Local.LiveSize + m.BlobFiles.Local.LiveSize)
}

// freeSpace returns the number of free bytes of the disk beyond the space that a compaction of the live
// files may need; it is negative if space is missing. The space of files that compactions are writing or
// removing counts as free. If the free space is unknown, the result is positive.
func (d *disk) freeSpace(m *pebble.Metrics) int64 {
	usage, known := d.usage()
	if !known {
		return maxHeadroom
	}
	live := liveBytes(m)
	temporary := int64(m.DiskSpaceUsage()) - live
	return int64(min(usage.AvailBytes, 1<<60)) + temporary - min(live, maxHeadroom) - 4*d.memTableSize()
}

// checkSpaceAfter adds bytes to the number of written bytes, and calls checkSpace each time that a quarter of
// a memtable has been written.
func (s *Store) checkSpaceAfter(e *engine, bytes int) {
	e.unchecked += int64(bytes)
	if e.unchecked >= s.disk.memTableSize()/4 {
		e.unchecked = 0
		s.checkSpace(e)
	}
}

// checkSpace limits the store to deletions if the store has reached its quota or the disk has
// little free space. It pauses compactions if their output might not fit on the disk.
func (s *Store) checkSpace(e *engine) {
	m := e.db.Metrics()
	room := s.disk.freeSpace(m)
	if room < 0 && s.disk.reserve.release() {
		room = s.disk.freeSpace(m)
	}
	e.scheduler.setPaused(room < 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.disk.reserve.isHeld() {
		s.rejectPutsLocked(errFull)
	} else if s.quota > 0 && liveBytes(m) > s.quota {
		s.rejectPutsLocked(fmt.Errorf("the store has reached its quota of %d MiB (--storage-quota); only deletions are accepted: %w", s.quota>>20, kv.ErrNoSpace))
	}
}

// rejectPutsLocked rejects puts with an error until awaitSpace has ended.
func (s *Store) rejectPutsLocked(reason error) {
	s.mu.full = reason
	if !s.mu.regaining && !s.mu.closed {
		s.mu.regaining = true
		s.log.Error("the store accepts deletions only, until there is space", "dir", s.disk.dir, "err", reason)
		s.tasks.Go(s.awaitSpace)
	}
}

// awaitSpace waits until the store is smaller than its quota and there is space for the reserve and
// compactions, and accepts puts again.
func (s *Store) awaitSpace() {
	r := reclaimer{store: s}
	for wait := repairFirst; ; wait = min(2*wait, repairLast) {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(wait):
		}
		r.run()
		if s.restoreReserve() && s.acceptPuts() {
			s.log.Info("the store accepts all writes again", "dir", s.disk.dir)
			return
		}
	}
}

// restoreReserve reports whether the store can accept puts again. If so, the reserve is held.
func (s *Store) restoreReserve() bool {
	e, err := s.acquireForWrite()
	if err != nil {
		return false
	}
	defer s.release()
	m := e.db.Metrics()
	room := e.updatePause(m)
	if s.quota > 0 && liveBytes(m) > s.quota-s.quota/spaceSlack {
		return false
	}
	r := &s.disk.reserve
	if !r.isHeld() {
		room -= r.size()
	}
	if room < min(liveBytes(m), maxHeadroom)/spaceSlack || r.allocate() != nil {
		return false
	}
	if s.disk.probe() != nil {
		r.release()
		return false
	}
	return true
}

func (s *Store) acceptPuts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.broken != nil || !s.disk.reserve.isHeld() {
		return false // a write has failed, or repair has released the reserve
	}
	s.mu.full, s.mu.regaining = nil, false
	return true
}

// reclaimer compacts a store while it is limited to deletions, each time that more history has
// been deleted.
type reclaimer struct {
	store *Store
	// trimmed is the revision up to which history had been deleted at the last compaction.
	trimmed kv.Revision
	at      time.Time
}

func (r *reclaimer) run() {
	s := r.store
	s.history.Lock()
	trimmed := s.history.trimmed
	s.history.Unlock()
	if trimmed == r.trimmed || time.Since(r.at) < reclaimInterval {
		return
	}
	if err := s.reclaim(s.ctx); err != nil {
		s.logFailure("reclaim space", err)
		return
	}
	r.trimmed, r.at = trimmed, time.Now()
}

// reclaim compacts all levels in steps of one table of the last level, so that the output of each
// step is small.
func (s *Store) reclaim(ctx context.Context) error {
	e, err := s.acquireForWrite()
	if err != nil {
		return err
	}
	defer s.release()
	if err := e.db.Flush(); err != nil {
		return e.wrapError("reclaim space", err)
	}
	levels, err := e.db.SSTables()
	if err != nil {
		return e.wrapError("reclaim space", err)
	}
	from := []byte{0}
	for _, table := range lastLevel(levels) {
		to := table.Largest.UserKey
		if err := e.compactRange(ctx, from, to); err != nil {
			return err
		}
		from = to
	}
	return e.compactRange(ctx, from, []byte{0xff})
}

// lastLevel returns the tables of the lowest level that contains tables.
func lastLevel(levels [][]pebble.SSTableInfo) []pebble.SSTableInfo {
	for i := len(levels) - 1; i > 0; i-- {
		if len(levels[i]) > 0 {
			return levels[i]
		}
	}
	return nil
}

// updatePause pauses compactions if their output might not fit on the disk, and permits them otherwise. It
// returns the result of freeSpace.
func (e *engine) updatePause(m *pebble.Metrics) int64 {
	room := e.disk.freeSpace(m)
	e.scheduler.setPaused(room < 0)
	return room
}

// compactRange compacts the keys in [from, to). The error wraps the error of ctx, kv.ErrNoSpace if
// compactions are paused, or kv.ErrUnavailable if a disk write fails. Each of these also ends compactRange
// while it waits, because repair cannot replace the engine until the caller releases it.
func (e *engine) compactRange(ctx context.Context, from, to []byte) error {
	if versionkey.NewComparer().Compare(from, to) >= 0 {
		return nil
	}
	e.updatePause(e.db.Metrics())
	paused := e.scheduler.whenPaused()
	if err := e.guard.Failure(); err != nil {
		return fmt.Errorf("compact: %w: %w", kv.ErrUnavailable, err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-paused:
			cancel(errFull)
		case <-running.Done():
		}
	}()
	err := e.db.Compact(running, from, to, false)
	switch failure := e.guard.Failure(); {
	case failure != nil:
		return fmt.Errorf("compact: %w: %w", kv.ErrUnavailable, failure)
	case err != nil && context.Cause(running) == errFull:
		return fmt.Errorf("compact: %w", errFull)
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("compact: %w", ctx.Err())
	}
	return e.wrapError("compact", err)
}
