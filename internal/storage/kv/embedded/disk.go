package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// Sizes for a small idle store. Pebble subtracts the memtables from the block cache. Two or three memtables
// exist during a flush, so the cache must be several times as large as a memtable to keep its content.
const (
	memTableBytes   = 4 << 20
	blockCacheBytes = 16 << 20
)

// firstRevision is the newest revision of an empty store. It is not 0, because the list of an empty
// store has a resourceVersion, and resourceVersion "0" has a special meaning in requests.
const firstRevision = 1

// disk is a locked directory. At most one engine is open in it at a time.
type disk struct {
	dir   string
	fs    vfs.FS
	log   *slog.Logger
	held  *pebble.Lock
	guard atomic.Pointer[pebblefs.Guard] // guard of the newest engine
	// damaged is the name of the last file in which Pebble found corruption.
	damaged atomic.Pointer[string]
	reserve reserve
}

func newDisk(cfg Config) (*disk, error) {
	d := &disk{dir: cfg.Dir, fs: cfg.FS, log: cfg.Logger}
	d.reserve.disk = d
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	switch {
	case cfg.InMemory && d.fs != nil:
		return nil, errors.New("open store: InMemory and FS exclude each other")
	case cfg.InMemory:
		d.fs = vfs.NewMem()
	case d.fs == nil:
		d.fs = pebblefs.Private{FS: vfs.Default}
	}
	if d.dir == "" {
		if !cfg.InMemory {
			return nil, errors.New("open store: no directory given")
		}
		d.dir = "store"
	}
	return d, nil
}

// lock creates the directory if necessary and locks it for this process.
func (d *disk) lock() error {
	err := pebblefs.MakeDir(d.fs, d.dir)
	if pebblefs.IsFull(err) {
		return fmt.Errorf("create data directory %s: %w: %w", d.dir, kv.ErrNoSpace, err)
	}
	if err != nil {
		return fmt.Errorf("create data directory %s: %w", d.dir, err)
	}
	d.held, err = pebble.LockDirectory(d.dir, d.fs)
	var opening *fs.PathError
	switch {
	case err == nil:
		return d.restrictPermissions()
	case pebblefs.IsFull(err):
		return fmt.Errorf("write to data directory %s: %w: %w", d.dir, kv.ErrNoSpace, err)
	case errors.As(err, &opening):
		return fmt.Errorf("data directory %s is not writable: %w", d.dir, err)
	default:
		// The file was opened, but the lock failed.
		return fmt.Errorf("data directory %s is in use by another process", d.dir)
	}
}

// restrictPermissions makes the files of the locked directory accessible only to their owner.
func (d *disk) restrictPermissions() error {
	if _, ok := d.fs.(pebblefs.Private); !ok {
		return nil // a file system in memory or of a test
	}
	if err := pebblefs.Protect(d.dir); err != nil {
		return errors.Join(fmt.Errorf("restrict the files of data directory %s to their owner: %w", d.dir, err), d.unlock())
	}
	return nil
}

func (d *disk) unlock() error {
	if err := d.held.Close(); err != nil {
		return fmt.Errorf("unlock data directory %s: %w", d.dir, err)
	}
	return nil
}

// engine is an open database.
type engine struct {
	db    *pebble.DB
	dir   string
	guard *pebblefs.Guard
	disk  *disk
	// readOnly is set if the database was opened read-only, on a full disk.
	readOnly  bool
	scheduler *scheduler
	// unchecked is the number of bytes written since the last checkSpace. Only commitLoop uses it.
	unchecked int64
	iterators iteratorPool
}

// options returns Pebble's options for this format.
func (d *disk) options(e *engine) *pebble.Options {
	o := &pebble.Options{
		FS:                 e.guard,
		Lock:               d.held,
		Comparer:           versionkey.NewComparer(),
		FormatMajorVersion: pebbleFormat,
		MemTableSize:       uint64(d.memTableSize()),
		CacheSize:          blockCacheBytes,
		// Writers wait for flushes if this number of memtables is full. The same number of log
		// files is retained for reuse.
		MemTableStopWritesThreshold: 3,
		// Each flush adds a sublevel to L0 if keys are rewritten, and a compaction of L0 rewrites
		// much of the next level. With a threshold of 4, compactions wrote two to three times as
		// much, and used a quarter of the CPU time of updates. A read checks the filters of each
		// sublevel.
		L0CompactionThreshold: 12,
		L0StopWritesThreshold: 1000,
		LBaseMaxBytes:         64 << 20,
		MaxOpenFiles:          500,
		Logger:                pebblefs.Logger{Log: d.log, Failed: e.guard.Fail},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) {
				if e.guard.Failure() != nil {
					return // a consequence of an earlier failure
				}
				d.log.Warn("background work on the store failed", "dir", d.dir, "err", pebblefs.FirstLine(err))
			},
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				if e.guard.Failure() != nil {
					return // an incompletely written file is not corrupt
				}
				if before := d.damaged.Swap(&info.Path); before != nil && *before == info.Path {
					return // log only once, not for each read
				}
				d.log.Error("the store is corrupt", "file", info.Path, "err", pebblefs.FirstLine(info.Details))
			},
		},
	}
	o.Experimental.CompactionScheduler = e.scheduler
	// By default, Pebble stores the values of older versions in separate blocks, each with a buffer
	// of 32 KiB until the table is written. During frequent updates, these buffers were a third of
	// all allocated memory.
	o.Experimental.SpanPolicyFunc = func([]byte) (pebble.SpanPolicy, []byte, error) {
		return pebble.SpanPolicy{DisableValueSeparationBySuffix: true}, nil, nil
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// pebbleFormat is the version of Pebble's own files. A change makes stores unreadable for older
// builds, so it requires a new formatVersion.
const pebbleFormat = pebble.FormatTableFormatV6

// wrapError converts an error of Pebble or of the file system into an error of package kv that names
// the file.
func (e *engine) wrapError(doing string, err error) error {
	file := e.dir
	if p := e.disk.damaged.Load(); p != nil {
		file = *p
	}
	return explain(doing, file, err)
}

func explain(doing, file string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kv.ErrCorrupt), pebble.IsCorruptionError(err):
		return fmt.Errorf("%s: %s is damaged; restore the data directory from a snapshot: %w", doing, file, asCorrupt(err))
	case pebblefs.IsFull(err):
		return fmt.Errorf("%s: %w: %w", doing, kv.ErrNoSpace, err)
	default:
		return fmt.Errorf("%s: %w: %w", doing, kv.ErrUnavailable, err)
	}
}

// asCorrupt returns err if it wraps kv.ErrCorrupt. Otherwise, it returns an error that wraps kv.ErrCorrupt
// and contains the first line of err.
func asCorrupt(err error) error {
	if errors.Is(err, kv.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %s", kv.ErrCorrupt, pebblefs.FirstLine(err))
}

// wrapOpenError converts an error from opening an existing store, like explain. The store is damaged unless a
// write failed or the operating system returned an error other than ENOENT. If Pebble reports corruption, the
// last read file is damaged; otherwise files are missing, have a wrong size, or are inconsistent, and the
// error contains the details.
func (d *disk) wrapOpenError(g *pebblefs.Guard, err error) error {
	if failed := g.Failure(); failed != nil {
		return explain("open the store", d.dir, failed)
	}
	file := d.dir
	if pebble.IsCorruptionError(err) && g.LastRead() != "" {
		file = g.LastRead()
	}
	var refused syscall.Errno
	if !errors.As(err, &refused) || refused == syscall.ENOENT {
		err = asCorrupt(err)
	}
	return explain("open the store", file, err)
}

// open opens the database in the directory, or creates it. failed is called once, after the first failed
// write.
func (d *disk) open(failed func(error)) (e *engine, err error) {
	isNew, err := d.prepare()
	if err != nil {
		return nil, err
	}
	if isNew {
		if e, err = d.openNew(); err != nil {
			return nil, err
		}
		if err = d.initialise(e); err != nil {
			return nil, errors.Join(err, e.close())
		}
	} else {
		e = d.newEngine()
		e.scheduler.setPaused(true) // until checkSpace permits compactions
		if e.db, err = pebblefs.Open(d.dir, d.options(e)); err != nil {
			return nil, d.wrapOpenError(e.guard, err)
		}
	}
	suspend := func(err error) {
		e.scheduler.setPaused(true) // compactRange must not wait for a compaction of this engine
		failed(err)
	}
	if err = e.guard.Arm(suspend); err != nil {
		e.guard.Abandon()
		return nil, errors.Join(explain("open the store", d.dir, err), e.close())
	}
	d.guard.Store(e.guard)
	return e, nil
}

// openReadOnly opens the database on a full disk, without flushing the logs to tables. It returns
// reason if the database does not exist.
func (d *disk) openReadOnly(reason error) (*engine, error) {
	isNew, err := d.prepare()
	if err != nil {
		return nil, err
	}
	if isNew {
		return nil, reason // there is no data to read
	}
	e := d.newEngine()
	e.readOnly = true
	o := d.options(e)
	o.ReadOnly = true
	if e.db, err = pebblefs.Open(d.dir, o); err != nil {
		return nil, d.wrapOpenError(e.guard, err)
	}
	d.guard.Store(e.guard)
	return e, nil
}

func (d *disk) newEngine() *engine {
	g := pebblefs.New(d.fs)
	g.Slow = func(name string) {
		d.log.Warn("syncing a file of the store takes too long", "file", name, "after", pebblefs.StallAfter)
	}
	return &engine{dir: d.dir, guard: g, disk: d, scheduler: newScheduler()}
}

// openNew creates a database with delayed syncs. A failed write ends all writes; the caller checks
// the guard at the end.
func (d *disk) openNew() (*engine, error) {
	e := d.newEngine()
	e.guard.DeferSyncs()
	var err error
	if e.db, err = pebblefs.Open(d.dir, d.options(e)); err != nil {
		return nil, d.wrapOpenError(e.guard, err)
	}
	if err := e.guard.Arm(func(error) { e.guard.Abandon() }); err != nil {
		return nil, errors.Join(explain("create the store", d.dir, err), e.close())
	}
	return e, nil
}

// complete makes all data written since openNew durable.
func (e *engine) complete() error {
	if err := e.guard.Failure(); err != nil {
		return explain("create the store", e.dir, err)
	}
	return explain("create the store", e.dir, e.guard.SyncDeferred())
}

// initialise writes the meta keys of a new store, makes the store durable, and removes the file that marks it
// as incomplete.
func (d *disk) initialise(e *engine) error {
	b := e.db.NewBatch()
	_ = b.Set([]byte(metaFormat), revisionValue(formatVersion), nil)
	_ = b.Set([]byte(metaRevision), revisionValue(firstRevision), nil)
	if err := e.apply(b); err != nil {
		return fmt.Errorf("create the store: %w", err)
	}
	if err := e.complete(); err != nil {
		return err
	}
	return d.removeMarker(creatingFile)
}

// apply writes a batch durably and closes it.
func (e *engine) apply(b *pebble.Batch) error {
	if err := e.db.Apply(b, pebble.Sync); err != nil {
		return e.wrapError("write", err)
	}
	// The guard reports failed writes to Pebble as successful.
	if err := e.guard.Failure(); err != nil {
		return fmt.Errorf("write: outcome unknown: %w: %w", kv.ErrUnavailable, err)
	}
	return b.Close()
}

// close closes the database, which must not be in use.
func (e *engine) close() error {
	e.iterators.close()
	if err := e.db.Close(); err != nil {
		return e.wrapError("close the store", err)
	}
	return nil
}
