package embedded

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
)

// The reserve is a file without content that allocates disk space. When the disk is almost full, the store
// removes this file, so that its space is available for deletions and compactions. Its size is a fraction of
// the disk, within these bounds in bytes.
const (
	reserveFile     = "RESERVE"
	minReserve      = 16 << 20
	maxReserve      = 96 << 20
	reserveFraction = 16
)

// errFull is the error of writes other than deletions while the disk is almost full.
var errFull = fmt.Errorf("the disk is almost full, and only deletions are accepted: %w", kv.ErrNoSpace)

// reserve creates and removes the reserve of a disk. It is safe for concurrent use.
type reserve struct {
	disk *disk
	mu   struct {
		sync.Mutex
		held bool
	}
}

// size returns the size of the reserve in bytes; 0 if the size of the disk is unknown.
func (r *reserve) size() int64 {
	usage, known := r.disk.usage()
	if !known {
		return 0
	}
	return min(max(int64(usage.TotalBytes/reserveFraction), minReserve), maxReserve)
}

// allocate creates the reserve. The error wraps kv.ErrNoSpace if there is too little space. If the file
// system cannot allocate space in advance, allocate returns nil, and the reserve has no effect.
func (r *reserve) allocate() error {
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
	if pebblefs.IsFull(err) {
		r.releaseLocked()
		return fmt.Errorf("set %d MiB of the disk aside: %w", size>>20, kv.ErrNoSpace)
	}
	if err != nil {
		r.disk.log.Debug("no space is set aside", "dir", r.disk.dir, "err", pebblefs.FirstLine(err))
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
	_ = r.disk.fs.Remove(r.name()) // the file may not exist
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
