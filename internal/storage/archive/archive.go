package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
)

// Config is the configuration of an Archive. Dir or InMemory is required.
type Config struct {
	// Dir is the directory of the archive. It must not contain other files, and is created if it does
	// not exist.
	Dir string
	// InMemory stores all data in memory, for tests; Dir is ignored.
	InMemory bool
	// Prefix is the prefix of the archived keys, such as "/registry/"; it ends with a slash.
	Prefix string
	// Policy is the retention.
	Policy Policy
	// FlushInterval is the time between two flushes; 0 selects one minute. The backend holds the changes
	// since the last flush, so the interval should be a fraction of the time for which the backend keeps
	// changes.
	FlushInterval time.Duration
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
	// Registerer registers the metrics of the archive; nil disables them.
	Registerer prometheus.Registerer

	// now replaces time.Now, and fs the file system, for tests.
	now func() time.Time
	fs  vfs.FS
}

// Archive keeps the versions of the keys of a backend. It is safe for concurrent use.
type Archive struct {
	dir     string
	fs      vfs.FS // nil selects the file system of the operating system
	prefix  string // prefix of the archived keys
	policy  Policy // Resources is replaced while life and mu are held
	log     *slog.Logger
	metrics *metrics
	now     func() time.Time
	// flushInterval is Config.FlushInterval.
	flushInterval time.Duration

	// life is held shared while the database is used, and exclusively while it is replaced or closed.
	life sync.RWMutex
	db   *database // nil after Close, after a failed write, and on a full disk

	// position is the newest archived revision; 0 before the first resync.
	position atomic.Int64

	mu struct {
		sync.Mutex
		// moved is closed and replaced when position changes, or when the archive stops following the
		// backend.
		moved  chan struct{}
		closed bool
		// current is the time at which position was the newest revision of the backend.
		current time.Time
		// start is the revision of the first resync.
		start kv.Revision
		// floors contains the floor of each resource with a rule, and the floor of the other resources under
		// "".
		floors map[string]floor
		// trimmed contains the floors on disk, up to which versions have been deleted. While versions are
		// being deleted, floors contains newer floors.
		trimmed map[string]floor
		// counted contains the floors of resources with Rule.MaxVersions.
		counted map[string]floor
		gaps    []gap // in ascending order
	}

	// trimming is held while versions are deleted, and guards smallest. smallest is the size of the archive,
	// in bytes, after the whole history was deleted, if this size still exceeded the maximum size.
	trimming sync.Mutex
	smallest int64

	// hold protects the changes since the last flush in the backend. It is used by follow, and by Close
	// after follow has ended.
	hold hold

	backend kv.Backend // set by Start
	ctx     context.Context
	cancel  context.CancelFunc
	tasks   sync.WaitGroup
}

// ErrNoDir is returned by Open for a Config without a directory.
var ErrNoDir = errors.New("open the history: no directory given")

// Open opens the archive in cfg.Dir, or creates it. On a full disk, it returns an archive without data, which
// opens its database when there is space. The error wraps kv.ErrCorrupt if the archive is damaged. The caller
// must call Close.
func Open(cfg Config) (*Archive, error) {
	policy := cfg.Policy.withDefaults()
	if err := policy.check(); err != nil {
		return nil, err
	}
	if cfg.Dir == "" && !cfg.InMemory {
		return nil, ErrNoDir
	}
	a := &Archive{dir: cfg.Dir, fs: cfg.fs, prefix: cfg.Prefix, policy: policy, log: cfg.Logger, now: cfg.now}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.now == nil {
		a.now = time.Now
	}
	if a.flushInterval = cfg.FlushInterval; a.flushInterval <= 0 {
		a.flushInterval = defaultFlushInterval
	}
	if cfg.InMemory {
		a.dir, a.fs = "history", vfs.NewMem()
	}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.mu.moved = make(chan struct{})
	err := a.reopen()
	if pebblefs.IsFull(err) {
		a.log.Warn("the disk is full: there is no history until there is space", "dir", a.dir, "err", pebblefs.FirstLine(err))
	} else if err != nil {
		return nil, err
	}
	if a.metrics, err = newMetrics(cfg.Registerer, a); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// reopen opens the database and loads the state of the last flush.
func (a *Archive) reopen() error {
	db, err := openDatabase(a.dir, a.fs, a.log)
	if err != nil {
		return err
	}
	st, err := db.load()
	if err != nil {
		return errors.Join(err, db.close())
	}
	if err := a.applyRules(db, &st); err != nil {
		return errors.Join(err, db.close())
	}
	a.life.Lock()
	defer a.life.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.db = db
	a.position.Store(int64(st.position))
	a.policy.Resources = st.rules
	a.mu.current, a.mu.start, a.mu.floors, a.mu.counted, a.mu.gaps = st.current, st.start, st.floors, st.counted, st.gaps
	a.mu.trimmed = maps.Clone(a.mu.floors)
	for resource, rule := range st.rules {
		// An earlier version of Mainstay may have deleted versions without moving the floor of the resource.
		if rule == (Rule{}) && a.mu.floors[resource].revision < a.mu.floors[""].revision {
			a.mu.floors[resource] = a.mu.floors[""]
		}
	}
	return nil
}

// applyRules completes the floors and the rules. A resource with a new rule gets its own floor on disk,
// because its floor and that of the other resources move independently. A resource whose rule was removed
// keeps its floor, and then has the maximum age of the other resources.
func (a *Archive) applyRules(db *database, st *state) error {
	b := db.NewBatch()
	st.rules = map[string]Rule{}
	for resource, rule := range a.policy.Resources {
		st.rules[resource] = rule
		if _, ok := st.floors[resource]; !ok {
			f := st.floors[""]
			st.floors[resource] = f
			_ = b.Set(floorKey(resource), f.value(), nil)
		}
	}
	for resource := range st.floors {
		if _, ok := st.rules[resource]; !ok && resource != "" {
			st.rules[resource] = Rule{}
		}
	}
	return db.apply(b)
}

// acquire returns the database. If the error is nil, the caller must call release, and must not call acquire
// again before release, because a waiting writer of life blocks new readers. The error is kv.ErrClosed after
// Close, and wraps kv.ErrUnavailable after a failed write.
func (a *Archive) acquire() (*database, error) {
	a.life.RLock()
	if a.db != nil {
		return a.db, nil
	}
	a.life.RUnlock()
	if a.ctx.Err() != nil {
		return nil, kv.ErrClosed
	}
	return nil, fmt.Errorf("the history cannot be written now: %w", kv.ErrUnavailable)
}

func (a *Archive) release() { a.life.RUnlock() }

// Prefix returns Config.Prefix.
func (a *Archive) Prefix() string { return a.prefix }

// Position returns the newest archived revision; 0 if the archive is empty. A backend must hold this
// revision until Start has been called.
func (a *Archive) Position() kv.Revision { return kv.Revision(a.position.Load()) }

// ErrOtherStore is returned by Start if the archive belongs to another backend, or the backend was
// replaced by an older copy.
var ErrOtherStore = errors.New("the history is newer than the store")

// Start starts to follow a backend, which must stay open until Close returns. It must be called once. The
// error wraps ErrOtherStore if the archive is newer than the backend. Other errors come from the backend.
func (a *Archive) Start(ctx context.Context, backend kv.Backend) error {
	newest, err := backend.CurrentRevision(ctx)
	if err != nil {
		return fmt.Errorf("start the history: %w", err)
	}
	if at := a.Position(); at > newest {
		return fmt.Errorf("%w: it ends at revision %d, and the newest revision of the store is %d", ErrOtherStore, at, newest)
	}
	a.backend = backend
	a.run(a.follow)
	a.run(a.retain)
	return nil
}

// run runs a function in a goroutine that Close waits for. It returns false after Close.
func (a *Archive) run(task func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.mu.closed {
		a.tasks.Go(task)
	}
	return !a.mu.closed
}

// Close stops following the backend, and flushes and closes the archive. Later reads return kv.ErrClosed.
func (a *Archive) Close() error {
	a.mu.Lock()
	a.mu.closed = true
	a.mu.Unlock()
	a.cancel()
	a.tasks.Wait()
	a.hold.end()
	a.life.Lock()
	defer a.life.Unlock()
	a.metrics.unregister()
	if a.db == nil {
		return nil
	}
	err := errors.Join(a.db.flush(), a.db.close())
	a.db = nil
	return err
}

// Await waits until the archive has reached a revision, which need not exist yet, or until ctx ends. The
// error wraps kv.ErrUnavailable after a failed write, and is kv.ErrClosed after Close.
func (a *Archive) Await(ctx context.Context, at kv.Revision) error {
	var again <-chan time.Time
	for requested := false; ; {
		a.mu.Lock()
		moved := a.mu.moved
		a.mu.Unlock()
		if _, err := a.acquire(); err != nil {
			return err
		}
		a.release()
		if a.Position() >= at {
			return nil
		}
		if !requested {
			if err := a.backend.RequestProgress(ctx); err != nil {
				return err
			}
			requested, again = true, time.After(progressPeriod)
		}
		select {
		case <-moved:
		case <-again:
			requested = false // the watch of the backend may have been opened after the request
		case <-ctx.Done():
			return ctx.Err()
		case <-a.ctx.Done():
			return kv.ErrClosed
		}
	}
}

// progressPeriod is the time between two requests for the progress of the watch.
const progressPeriod = time.Second

// moveTo sets the position, after a batch with the changes up to the position was written.
func (a *Archive) moveTo(at kv.Revision, current time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.position.Store(int64(at))
	a.mu.current = current
	a.wakeLocked()
}

// wakeLocked makes the callers of Await check again.
func (a *Archive) wakeLocked() {
	close(a.mu.moved)
	a.mu.moved = make(chan struct{})
}
