package embedded

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// The reserve is an empty file that uses disk space. When little space is left, it is removed: its
// space is available for deletions and compactions, until it can be created again. Its size is a
// share of the disk, within these bounds, in bytes.
const (
	reserveFile  = "RESERVE"
	reserveLeast = 16 << 20
	reserveMost  = 96 << 20
	reserveShare = 16
)

// errFull is the reason why a store accepts deletions only.
var errFull = fmt.Errorf("only deletions are taken, from space that was kept for them: %w", kv.ErrNoSpace)

// reserve is safe for concurrent use.
type reserve struct {
	disk *disk
	mu   struct {
		sync.Mutex
		held bool
	}
}

// size returns the size of the reserve in bytes, 0 if the size of the disk is not known.
func (r *reserve) size() int64 {
	usage, known := r.disk.usage()
	if !known {
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

// release deletes the reserve. It reports whether the reserve existed.
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

// needsSpace reports whether a transaction is rejected while the store accepts deletions only.
func needsSpace(ops []kv.Op) bool {
	for i := range ops {
		if ops[i].Kind == kv.OpPut && !ops[i].Removing {
			return true
		}
	}
	return false
}
