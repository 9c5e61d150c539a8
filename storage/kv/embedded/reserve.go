package embedded

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/storage/kv"
)

// The reserve is a file that takes up space and holds nothing. When the disk is
// full, it is removed: the space is then for deletions and for what makes room,
// until it can be set aside again. Its size follows from that of the disk,
// within these bounds; the greater one is what a compaction may need before it frees
// anything: twelve sublevels of L0 and the level below (disk.options).
const (
	reserveFile  = "RESERVE"
	reserveLeast = 16 << 20
	reserveMost  = 96 << 20
	reserveShare = 16
)

// errFull is why a store takes deletions only.
var errFull = fmt.Errorf("only deletions are taken, from space that was kept for them: %w", kv.ErrNoSpace)

// reserve is safe for concurrent use.
type reserve struct {
	disk *disk
	mu   struct {
		sync.Mutex
		held bool
	}
}

// size is how much is set aside, 0 where it is not known how large the disk is.
func (r *reserve) size() int64 {
	usage, err := r.disk.fs.GetDiskUsage(r.disk.dir)
	if err != nil {
		return 0
	}
	return min(max(int64(usage.TotalBytes/reserveShare), reserveLeast), reserveMost)
}

// take sets the space aside. The error is kv.ErrNoSpace where there is too
// little; where the file system cannot set space aside, there is no reserve, and
// no error.
func (r *reserve) take() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.held = true
	size := r.size()
	if size == 0 {
		return nil
	}
	f, err := r.disk.fs.OpenReadWrite(r.name(), vfs.WriteCategoryUnspecified)
	if err == nil {
		err = errors.Join(f.Preallocate(0, size), f.Close())
	}
	if isFull(err) {
		r.releaseLocked()
		return fmt.Errorf("set %d MiB of the disk aside: %w", size>>20, kv.ErrNoSpace)
	}
	if err != nil {
		r.disk.log.Debug("no space is set aside", "dir", r.disk.dir, "err", firstLine(err))
	}
	return nil
}

// release gives the space to the store. It reports whether it was held.
func (r *reserve) release() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.releaseLocked()
}

func (r *reserve) releaseLocked() bool {
	was := r.mu.held
	r.mu.held = false
	_ = r.disk.fs.Remove(r.name()) // it may not be there
	return was
}

func (r *reserve) isHeld() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.held
}

func (r *reserve) name() string { return filepath.Join(r.disk.dir, reserveFile) }

// limitLocked has puts refused while the reserve is used up, and sees to its
// being set aside again.
func (s *Store) limitLocked() {
	if s.disk.reserve.isHeld() {
		return
	}
	s.mu.full = errFull
	if !s.mu.regaining && !s.mu.closed {
		s.mu.regaining = true
		s.log.Error("the disk is full: the store takes deletions only, until there is room", "dir", s.disk.dir)
		s.tasks.Go(s.regain)
	}
}

// regain waits until there is room for the reserve, and some more, and takes
// puts again.
func (s *Store) regain() {
	for wait := repairFirst; ; wait = min(2*wait, repairLast) {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(wait):
		}
		if s.disk.reserve.take() != nil {
			continue
		}
		if s.disk.probe() != nil {
			s.disk.reserve.release()
			continue
		}
		if s.unlimit() {
			s.log.Info("the store takes all writes again", "dir", s.disk.dir)
			return
		}
	}
}

func (s *Store) unlimit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.broken != nil || !s.disk.reserve.isHeld() {
		return false // repair does it
	}
	s.mu.full, s.mu.regaining = nil, false
	return true
}

// needsSpace reports whether a transaction is refused while the store takes
// deletions only.
func needsSpace(ops []kv.Op) bool {
	for i := range ops {
		if ops[i].Kind == kv.OpPut && !ops[i].Removing {
			return true
		}
	}
	return false
}
