// Package pebblefs opens Pebble databases so that failed writes do not end the process. It contains two file
// systems: Guard hides failed writes from Pebble, and Private makes files accessible only to their owner.
package pebblefs

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Guard is a file system for Pebble that hides failed writes, because Pebble ends the process if a
// write to its log or manifest fails. After the first failed write, the guard writes nothing more:
// the directory stays as if the process had been killed at that time. Pebble continues to serve
// reads until the store reopens the engine.
//
// After a failed write,
//   - writes to log files are discarded and reported as successful; the store checks Failure
//     before it acknowledges a commit;
//   - all other writes block, so that flushes and compactions do not replace readable files with
//     incomplete ones;
//   - after a call of Abandon, all writes are discarded, and new files are created in memory, so
//     that Pebble can be closed;
//   - a table that was being written is removed when Pebble closes it, which frees its space. No
//     manifest on disk contains it, because Pebble adds only closed tables.
//
// Until Arm is called, the engine has no readers. A failed write then abandons the disk immediately, and Arm
// returns the error. Errors are hidden from Pebble even during Open, because Pebble retries some operations
// until they succeed.
type Guard struct {
	vfs.FS
	state atomic.Int32
	// abandoned is closed by Abandon.
	abandoned chan struct{}
	// discarded contains the files created after Abandon, under their base names.
	discarded *vfs.MemFS
	// Slow is called with the name of a file, other than a log, whose sync takes longer than StallAfter. It
	// may be nil.
	Slow func(name string)

	mu struct {
		sync.Mutex
		armed  bool
		err    error
		failed func(error)
		// read is the name of the last file opened for reading.
		read string
		// unsynced contains the names of the files with delayed syncs; the value is true for directories. It
		// is nil if syncs are not delayed.
		unsynced map[string]bool
	}
}

const (
	stateWrites int32 = iota
	stateFailed
	stateAbandoned
)

// New returns a Guard that wraps inner. It is not armed.
func New(inner vfs.FS) *Guard {
	return &Guard{FS: inner, abandoned: make(chan struct{}), discarded: vfs.NewMem()}
}

// Unwrap implements vfs.FS.
func (g *Guard) Unwrap() vfs.FS { return g.FS }

// Arm makes the guard call failed once, after the first failed write. If a write has already failed, Arm
// returns its error.
func (g *Guard) Arm(failed func(error)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.armed, g.mu.failed, g.mu.read = true, failed, ""
	return g.mu.err
}

// Fail records err as the error of the first failed write. It has no effect after an earlier failure. All
// later writes are discarded or block.
func (g *Guard) Fail(err error) {
	g.mu.Lock()
	if g.mu.err != nil {
		g.mu.Unlock()
		return
	}
	g.mu.err = err
	armed, failed := g.mu.armed, g.mu.failed
	g.state.CompareAndSwap(stateWrites, stateFailed)
	g.mu.Unlock()
	if !armed {
		g.Abandon()
		return
	}
	failed(err)
}

// Failure returns the error of the first failed write, or nil.
func (g *Guard) Failure() error {
	if g.state.Load() == stateWrites {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.err
}

// Abandon discards the blocked writes and all later writes.
func (g *Guard) Abandon() {
	if g.state.Swap(stateAbandoned) != stateAbandoned {
		close(g.abandoned)
	}
}

// check is called before each write. It reports whether to discard the write. After Fail, a write to a file
// other than a log blocks until Abandon.
func (g *Guard) check(name string) (swallow bool) {
	if g.state.Load() == stateWrites {
		return false
	}
	if !IsLog(name) {
		<-g.abandoned
	}
	return true
}

// wrote handles the result of each write. If it returns, the caller reports the write to Pebble as
// successful.
func (g *Guard) wrote(name string, err error) {
	if err == nil {
		return
	}
	g.Fail(err)
	g.check(name)
}

// runWrite runs a write that returns only an error.
func (g *Guard) runWrite(name string, write func() error) error {
	if !g.check(name) {
		g.wrote(name, write())
	}
	return nil
}

// StallAfter is the time after which a disk write is reported as slow. It is much longer than a write to a
// busy disk takes, and shorter than request timeouts.
const StallAfter = 5 * time.Second

// syncWatched syncs a file that no commit waits for, such as a table or the manifest, and reports a
// sync that exceeds StallAfter.
func (g *Guard) syncWatched(name string, sync func() error) error {
	if IsLog(name) || g.Slow == nil {
		return sync()
	}
	timer := time.AfterFunc(StallAfter, func() { g.Slow(name) })
	defer timer.Stop()
	return sync()
}

// SyncDir syncs a directory, so that its new and renamed files are durable. It returns the errors
// of the file system.
func SyncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// MakeDir creates a directory and its missing parents durably, with mode 0700. It returns the error
// of the file system.
func MakeDir(fs vfs.FS, dir string) error {
	var made []string
	for at := dir; ; at = fs.PathDir(at) {
		if _, err := fs.Stat(at); err == nil || fs.PathDir(at) == at {
			break
		}
		made = append(made, at)
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, at := range made {
		if err := SyncDir(fs, fs.PathDir(at)); err != nil {
			return err
		}
	}
	return nil
}

// IsLog reports whether a file of Pebble is a write-ahead log.
func IsLog(name string) bool { return strings.HasSuffix(name, ".log") }

func isTable(name string) bool { return strings.HasSuffix(name, ".sst") }

// DeferSyncs delays all syncs until SyncDeferred is called. It is used to create a store, which is of no use
// before it is complete.
func (g *Guard) DeferSyncs() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.unsynced = make(map[string]bool)
}

// SyncDeferred performs the delayed syncs, and returns the first error.
func (g *Guard) SyncDeferred() error {
	g.mu.Lock()
	names := g.mu.unsynced
	g.mu.unsynced = nil
	g.mu.Unlock()
	for name, isDir := range names {
		if isDir {
			if err := SyncDir(g.FS, name); err != nil {
				return err
			}
			continue
		}
		f, err := g.FS.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// deferSync reports whether the sync of a file is delayed, and records the file if it is.
func (g *Guard) deferSync(f *guardedFile) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.unsynced == nil {
		return false
	}
	g.mu.unsynced[f.name] = f.dir
	return true
}

// renamed records the new name of a file with a delayed sync.
func (g *Guard) renamed(oldname, newname string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if isDir, ok := g.mu.unsynced[oldname]; ok {
		delete(g.mu.unsynced, oldname)
		g.mu.unsynced[newname] = isDir
	}
}

// LastRead returns the name of the last file opened for reading before the guard was armed.
func (g *Guard) LastRead() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.read
}

// Create implements vfs.FS.
func (g *Guard) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.opened(name, func() (vfs.File, error) { return g.FS.Create(name, c) })
}

// ReuseForWrite implements vfs.FS.
func (g *Guard) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.opened(newname, func() (vfs.File, error) { return g.FS.ReuseForWrite(oldname, newname, c) })
}

// OpenReadWrite implements vfs.FS.
func (g *Guard) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.opened(name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, c, opts...) })
}

func (g *Guard) opened(name string, open func() (vfs.File, error)) (vfs.File, error) {
	if g.check(name) {
		return g.discarded.Create(g.PathBase(name), vfs.WriteCategoryUnspecified)
	}
	f, err := open()
	if err != nil {
		g.wrote(name, err)
		return g.discarded.Create(g.PathBase(name), vfs.WriteCategoryUnspecified)
	}
	return &guardedFile{File: f, guard: g, name: name}, nil
}

// Open implements vfs.FS.
func (g *Guard) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if g.state.Load() != stateWrites {
		if f, err := g.discarded.Open(g.PathBase(name)); err == nil {
			return f, nil
		}
	}
	g.mu.Lock()
	if !g.mu.armed {
		g.mu.read = name
	}
	g.mu.Unlock()
	return g.FS.Open(name, opts...)
}

// Stat implements vfs.FS.
func (g *Guard) Stat(name string) (vfs.FileInfo, error) {
	if g.state.Load() != stateWrites {
		if info, err := g.discarded.Stat(g.PathBase(name)); err == nil {
			return info, nil
		}
	}
	return g.FS.Stat(name)
}

// OpenDir implements vfs.FS. Directories are opened only to sync them.
func (g *Guard) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &guardedFile{File: f, guard: g, name: name, dir: true}, nil
}

// Link implements vfs.FS.
func (g *Guard) Link(oldname, newname string) error {
	if g.check(newname) {
		_ = g.discarded.Link(g.PathBase(oldname), g.PathBase(newname))
		return nil
	}
	return g.runWrite(newname, func() error { return g.FS.Link(oldname, newname) })
}

// Rename implements vfs.FS.
func (g *Guard) Rename(oldname, newname string) error {
	if g.check(newname) {
		_ = g.discarded.Rename(g.PathBase(oldname), g.PathBase(newname))
		return nil
	}
	return g.runWrite(newname, func() error {
		g.renamed(oldname, newname)
		return g.FS.Rename(oldname, newname)
	})
}

// MkdirAll implements vfs.FS.
func (g *Guard) MkdirAll(dir string, perm os.FileMode) error {
	return g.runWrite(dir, func() error { return g.FS.MkdirAll(dir, perm) })
}

// Remove implements vfs.FS. After a failed write, it does nothing, because a remaining file is harmless.
func (g *Guard) Remove(name string) error {
	if g.state.Load() != stateWrites {
		return nil
	}
	return g.FS.Remove(name)
}

// RemoveAll implements vfs.FS.
func (g *Guard) RemoveAll(name string) error {
	if g.state.Load() != stateWrites {
		return nil
	}
	return g.FS.RemoveAll(name)
}

// guardedFile is a file opened for writing, or a directory.
type guardedFile struct {
	vfs.File
	guard *Guard
	name  string
	dir   bool
}

func (f *guardedFile) Write(p []byte) (int, error) {
	if f.guard.check(f.name) {
		return len(p), nil
	}
	_, err := f.File.Write(p)
	f.guard.wrote(f.name, err)
	return len(p), nil
}

func (f *guardedFile) WriteAt(p []byte, off int64) (int, error) {
	if f.guard.check(f.name) {
		return len(p), nil
	}
	_, err := f.File.WriteAt(p, off)
	f.guard.wrote(f.name, err)
	return len(p), nil
}

func (f *guardedFile) Sync() error {
	return f.guard.runWrite(f.name, func() error {
		if f.guard.deferSync(f) {
			return nil
		}
		return f.guard.syncWatched(f.name, f.File.Sync)
	})
}

func (f *guardedFile) SyncData() error {
	return f.guard.runWrite(f.name, func() error {
		if f.guard.deferSync(f) {
			return nil
		}
		return f.guard.syncWatched(f.name, f.File.SyncData)
	})
}

func (f *guardedFile) SyncTo(length int64) (bool, error) {
	if f.guard.check(f.name) {
		return true, nil
	}
	full, err := f.File.SyncTo(length)
	f.guard.wrote(f.name, err)
	return full || err != nil, nil
}

func (f *guardedFile) Close() error {
	if f.guard.state.Load() != stateWrites || f.dir {
		_ = f.File.Close()
		if isTable(f.name) {
			_ = f.guard.FS.Remove(f.name)
		}
		return nil
	}
	f.guard.wrote(f.name, f.File.Close())
	return nil
}
