package embedded

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard is a file system for Pebble that hides failed writes, because Pebble ends the process if a
// write to its log or manifest fails. After the first failed write, the guard writes nothing more:
// the directory stays as if the process had been killed at that time. Pebble continues to serve
// reads until the store reopens the engine.
//
// After a failed write,
//   - writes to log files are discarded and reported as successful; the store checks failure()
//     before it acknowledges a commit;
//   - all other writes block, so that flushes and compactions do not replace readable files by
//     incomplete ones;
//   - after a call of abandon, all writes are discarded, and new files are created in memory, so
//     that Pebble can be closed;
//   - a table that was being written is removed when Pebble closes it, which frees its space. No
//     manifest on disk contains it, because Pebble adds only closed tables.
//
// A guard that is not armed yet belongs to an engine without readers. After a failed write, it
// abandons the disk immediately, and arm returns the error. Errors are hidden from Pebble even
// during Open, because Pebble retries some operations until they succeed.
type guard struct {
	vfs.FS
	state atomic.Int32
	// abandoned is closed by abandon.
	abandoned chan struct{}
	// discarded contains the files created after abandon, by the last element of their names.
	discarded *vfs.MemFS
	// slow is called if the sync of a file does not end within stallAfter. It may be nil.
	slow func(name string)

	mu struct {
		sync.Mutex
		armed  bool
		err    error
		failed func(error)
		// read is the name of the last file opened for reading.
		read string
		// unsynced contains the files with delayed syncs; the value is true for directories. It is nil
		// if syncs are not delayed.
		unsynced map[string]bool
	}
}

const (
	guardWrites int32 = iota
	guardFailed
	guardAbandoned
)

func newGuard(inner vfs.FS) *guard {
	return &guard{FS: inner, abandoned: make(chan struct{}), discarded: vfs.NewMem()}
}

// Unwrap implements vfs.FS.
func (g *guard) Unwrap() vfs.FS { return g.FS }

// arm makes the guard call failed once after a failed write. It returns an earlier failure.
func (g *guard) arm(failed func(error)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.armed, g.mu.failed, g.mu.read = true, failed, ""
	return g.mu.err
}

// fail records the first failed write. All later writes are discarded or block.
func (g *guard) fail(err error) {
	g.mu.Lock()
	if g.mu.err != nil {
		g.mu.Unlock()
		return
	}
	g.mu.err = err
	armed, failed := g.mu.armed, g.mu.failed
	g.state.CompareAndSwap(guardWrites, guardFailed)
	g.mu.Unlock()
	if !armed {
		g.abandon()
		return
	}
	failed(err)
}

// failure returns the error of the first failed write, or nil.
func (g *guard) failure() error {
	if g.state.Load() == guardWrites {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.err
}

// abandon discards the blocked writes and all later ones.
func (g *guard) abandon() {
	if g.state.Swap(guardAbandoned) != guardAbandoned {
		close(g.abandoned)
	}
}

// check is called before each write. It reports whether to discard the write, and blocks between a
// failure and abandon.
func (g *guard) check(name string) (swallow bool) {
	if g.state.Load() == guardWrites {
		return false
	}
	if !isLog(name) {
		<-g.abandoned
	}
	return true
}

// wrote handles the result of each write. If it returns, the caller reports the write to Pebble as
// successful.
func (g *guard) wrote(name string, err error) {
	if err == nil {
		return
	}
	g.fail(err)
	g.check(name)
}

// runWrite runs a write that returns only an error.
func (g *guard) runWrite(name string, write func() error) error {
	if !g.check(name) {
		g.wrote(name, write())
	}
	return nil
}

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

func isTable(name string) bool { return strings.HasSuffix(name, ".sst") }

// deferSyncs delays all syncs until syncDeferred, for the creation of a store, which has no value
// before it is complete.
func (g *guard) deferSyncs() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.unsynced = make(map[string]bool)
}

// syncDeferred performs the delayed syncs.
func (g *guard) syncDeferred() error {
	g.mu.Lock()
	names := g.mu.unsynced
	g.mu.unsynced = nil
	g.mu.Unlock()
	for name, isDir := range names {
		if isDir {
			if err := syncDir(g.FS, name); err != nil {
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
func (g *guard) deferSync(f *guardedFile) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.unsynced == nil {
		return false
	}
	g.mu.unsynced[f.name] = f.dir
	return true
}

// renamed tracks a renamed file with a delayed sync.
func (g *guard) renamed(oldname, newname string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if isDir, ok := g.mu.unsynced[oldname]; ok {
		delete(g.mu.unsynced, oldname)
		g.mu.unsynced[newname] = isDir
	}
}

// lastRead returns the name of the last file opened for reading before the guard was armed.
func (g *guard) lastRead() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.read
}

// Create implements vfs.FS.
func (g *guard) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.opened(name, func() (vfs.File, error) { return g.FS.Create(name, c) })
}

// ReuseForWrite implements vfs.FS.
func (g *guard) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.opened(newname, func() (vfs.File, error) { return g.FS.ReuseForWrite(oldname, newname, c) })
}

// OpenReadWrite implements vfs.FS.
func (g *guard) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.opened(name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, c, opts...) })
}

func (g *guard) opened(name string, open func() (vfs.File, error)) (vfs.File, error) {
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
func (g *guard) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if g.state.Load() != guardWrites {
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
func (g *guard) Stat(name string) (vfs.FileInfo, error) {
	if g.state.Load() != guardWrites {
		if info, err := g.discarded.Stat(g.PathBase(name)); err == nil {
			return info, nil
		}
	}
	return g.FS.Stat(name)
}

// OpenDir implements vfs.FS. A directory is opened to be synced.
func (g *guard) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &guardedFile{File: f, guard: g, name: name, dir: true}, nil
}

// Link implements vfs.FS.
func (g *guard) Link(oldname, newname string) error {
	if g.check(newname) {
		_ = g.discarded.Link(g.PathBase(oldname), g.PathBase(newname))
		return nil
	}
	return g.runWrite(newname, func() error { return g.FS.Link(oldname, newname) })
}

// Rename implements vfs.FS.
func (g *guard) Rename(oldname, newname string) error {
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
func (g *guard) MkdirAll(dir string, perm os.FileMode) error {
	return g.runWrite(dir, func() error { return g.FS.MkdirAll(dir, perm) })
}

// Remove implements vfs.FS. It ignores errors: a remaining file is harmless.
func (g *guard) Remove(name string) error {
	if g.state.Load() != guardWrites {
		return nil
	}
	return g.FS.Remove(name)
}

// RemoveAll implements vfs.FS.
func (g *guard) RemoveAll(name string) error {
	if g.state.Load() != guardWrites {
		return nil
	}
	return g.FS.RemoveAll(name)
}

// guardedFile is a file opened for writing, or a directory.
type guardedFile struct {
	vfs.File
	guard *guard
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
	if f.guard.state.Load() != guardWrites || f.dir {
		_ = f.File.Close()
		if isTable(f.name) {
			_ = f.guard.FS.Remove(f.name)
		}
		return nil
	}
	f.guard.wrote(f.name, f.File.Close())
	return nil
}
