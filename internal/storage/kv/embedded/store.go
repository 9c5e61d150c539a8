package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/history"
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
)

// DefaultRetention is the retention of history if Config does not specify one.
const DefaultRetention = 5 * time.Minute

// heldAtOpen is the duration of the hold of Config.Held.
const heldAtOpen = time.Minute

// Config is the configuration of a Store. Dir or InMemory is required.
type Config struct {
	// Dir is the directory of the store. It must not contain other files, and is created if it does
	// not exist.
	Dir string
	// InMemory stores all data in memory, for tests; Dir is ignored.
	InMemory bool
	// Retention is the time for which replaced and deleted values remain readable, measured in time that the
	// store is open. 0 means DefaultRetention; a negative value retains history until Compact is called.
	Retention time.Duration
	// Quota is the size, in bytes, above which the store accepts only deletions until it is smaller again; 0
	// means no limit. It may be exceeded by a few MiB. Quotas less than MinQuota leave little space besides
	// logs and history.
	Quota int64
	// Held is a revision that is held when the store is opened, for a reader that creates its own hold within
	// heldAtOpen; 0 holds none. A revision that does not exist yet or was compacted is ignored.
	Held kv.Revision
	// AcceptLostWrites opens a store whose newest writes are missing, instead of returning
	// ErrLostWrites. The store continues at a revision greater than all revisions that clients have
	// seen. History starts at that revision.
	AcceptLostWrites bool
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
	// Registerer registers the metrics of the store; nil disables them.
	Registerer prometheus.Registerer
	// Snapshot is the path of a snapshot that is loaded into a store in memory; "" creates an empty store.
	Snapshot string
	// FS replaces the file system of the operating system, for fault injection.
	FS vfs.FS
	// Simulation provides the clock for the expiration of keys; nil selects the real clock.
	Simulation *simulation.Simulation
	// stallAfter replaces pebblefs.StallAfter, for tests.
	stallAfter time.Duration
	// now replaces time.Now, for tests.
	now func() time.Time
}

// Store implements kv.Backend with a database in a directory or in memory. It is safe for concurrent use.
type Store struct {
	log     *slog.Logger
	metrics *metrics
	disk    *disk
	stall   *stall
	acks    *ackFile
	// acceptLost is Config.AcceptLostWrites.
	acceptLost bool

	// Lock order: history, life, mu. holds, marks, copying, expiries, ring and counts have internal locks.
	// No other lock is acquired while an internal lock is held.
	//
	// life is held shared while the engine is used, and exclusively while it is replaced or closed.
	life   sync.RWMutex
	engine *engine // nil after Close and during a repair

	// published is the newest durable revision, which is the newest revision that reads see. It is written
	// while the lock of counts is held.
	published atomic.Int64
	compacted atomic.Int64
	ring      ring
	counts    counts
	retention time.Duration
	quota     int64 // in bytes; 0 means no limit
	// holds limits all compactions. marks and uptime determine the revisions of automatic compactions.
	holds *history.Holds
	// pins are the durable pins. history is locked while they are replaced. unpinned receives a value when
	// pins were removed.
	pins     atomic.Pointer[PinSet]
	unpinned chan struct{}
	// copying contains the pins of the running snapshots.
	copying pinCopies
	marks   history.Marks
	uptime  uptimeClock
	now     func() time.Time

	// mu guards the state that transactions are evaluated against. No I/O is performed while it is
	// held.
	mu struct {
		sync.Mutex
		// work is signalled when pending receives its first transaction, and by Close.
		work sync.Cond
		// assigned is the newest assigned revision.
		assigned kv.Revision
		recent   recent
		// pending collects transactions, and writing is being written to disk; either may be nil.
		pending, writing *group
		// db creates the batches of pending; it is engine.db.
		db *pebble.DB
		// broken is the reason for rejecting all writes, or nil. brokenCh is closed when broken is
		// set, and replaced when it is cleared.
		broken   error
		brokenCh chan struct{}
		// full is the reason for accepting deletions only, or nil. regaining is set while awaitSpace
		// runs, which clears full.
		full      error
		regaining bool
		closed    bool
	}

	// history serialises compactions, and guards trimmed.
	history struct {
		sync.Mutex
		// trimmed is the newest revision whose log record was deleted.
		trimmed kv.Revision
	}

	expiries   expiries
	simulation *simulation.Simulation // Config.Simulation

	// ctx ends when Close begins.
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

var (
	_ kv.Backend          = (*Store)(nil)
	_ kv.PrefixRevisioner = (*Store)(nil)
)

// Open opens the store in cfg.Dir, or creates it. On a full disk, it opens an existing store: reads
// are served, and writes are accepted when space is available. It returns an error if the directory
// is not writable, is used by another process, has a newer format, or is damaged (kv.ErrCorrupt,
// ErrLostWrites). The caller must call Close.
func Open(cfg Config) (*Store, error) {
	if err := cfg.loadSnapshot(); err != nil {
		return nil, err
	}
	d, err := newDisk(cfg)
	if err != nil {
		return nil, err
	}
	s := &Store{log: d.log, disk: d, stall: newStall(cfg.stallAfter, d), retention: cfg.Retention, quota: cfg.Quota, acceptLost: cfg.AcceptLostWrites, simulation: cfg.Simulation}
	if s.retention == 0 {
		s.retention = DefaultRetention
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.work.L = &s.mu.Mutex
	s.mu.brokenCh = make(chan struct{})
	s.holds = history.NewHolds()
	s.unpinned = make(chan struct{}, 1)
	if s.now = cfg.now; s.now == nil {
		s.now = time.Now
	}
	s.expiries.init()
	s.counts = newCounts(&s.published)
	if err := s.disk.lock(); err != nil {
		s.cancel()
		return nil, err
	}
	if err := d.checkVolume(); err != nil {
		s.cancel()
		return nil, errors.Join(err, s.disk.unlock())
	}
	_ = d.reserve.allocate() // openEngine checks whether the reserve is held
	refusal, err := s.openEngine()
	if err != nil {
		s.cancel()
		return nil, errors.Join(err, s.disk.unlock())
	}
	if s.metrics, err = newMetrics(cfg.Registerer, s); err != nil {
		s.cancel()
		return nil, errors.Join(err, s.engine.close(), s.disk.unlock())
	}
	if cfg.Held > 0 {
		_, _ = s.holds.Add(s.ctx, cfg.Held, heldAtOpen) // fails if the revision was compacted
	}
	s.acks = d.openAckFile()
	if refusal == nil {
		s.acks.record(kv.Revision(s.published.Load()))
	}
	s.start()
	if refusal != nil && s.rejectWrites(refusal) {
		s.log.Error("the disk is full: the store is read-only until there is space", "dir", d.dir, "err", pebblefs.FirstLine(refusal))
	}
	return s, nil
}

// start starts the goroutines that end when the store is closed.
func (s *Store) start() {
	s.tasks.Go(s.commitLoop)
	s.tasks.Go(s.expireKeys)
	s.tasks.Go(func() { s.acks.syncLoop(s.ctx.Done()) })
	s.tasks.Go(s.retainHistory)
}

// openEngine opens the database and loads its state. If the disk is too full for writing, it opens
// the database read-only and returns the reason in refusal. The caller must hold life exclusively
// or be the only user.
func (s *Store) openEngine() (refusal, err error) {
	e, err := s.disk.open(s.handleWriteError)
	if errors.Is(err, kv.ErrNoSpace) && s.disk.reserve.release() {
		e, err = s.disk.open(s.handleWriteError)
	}
	if errors.Is(err, kv.ErrNoSpace) {
		refusal = err
		e, err = s.disk.openReadOnly(refusal)
	}
	if err != nil {
		return nil, err
	}
	st, err := s.loadState(e)
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	s.engine = e
	s.history.trimmed = st.trimmed
	s.pins.Store(&st.pins)
	s.compacted.Store(int64(st.compacted))
	s.holds.Reset(st.compacted)
	if s.uptime.opened.IsZero() { // after a repair, the values in memory are newer
		s.uptime.start(&st, s.now(), s.markInterval())
		for _, mark := range st.marks {
			s.marks.Add(mark)
		}
	}
	s.expiries.wake(st.firstExpiry)
	s.mu.Lock()
	s.mu.db = e.db
	s.mu.assigned = st.revision
	s.mu.recent = newRecent(st.revision)
	s.counts.reset(st.revision)
	s.ring.reset(st.revision)
	s.mu.Unlock()
	if refusal == nil {
		s.checkSpace(e)
	}
	return refusal, nil
}

// acquireEngine returns the engine for reading. The caller must call release. It returns errReopening during a
// repair, and kv.ErrClosed after Close.
func (s *Store) acquireEngine() (*engine, error) {
	s.life.RLock()
	if s.engine != nil {
		return s.engine, nil
	}
	s.life.RUnlock()
	if s.ctx.Err() != nil {
		return nil, kv.ErrClosed
	}
	return nil, errReopening
}

// errReopening reports that there is no engine during a repair.
var errReopening = fmt.Errorf("the store is being reopened: %w", kv.ErrUnavailable)

// rejectionLocked returns the reason for rejecting all writes, or nil.
func (s *Store) rejectionLocked() error {
	if s.mu.closed {
		return kv.ErrClosed
	}
	return s.mu.broken
}

// release ends the use of the engine that acquireEngine returned.
func (s *Store) release() { s.life.RUnlock() }

// CurrentRevision implements kv.Backend.
func (s *Store) CurrentRevision(ctx context.Context) (kv.Revision, error) {
	if err := s.checkOpen(ctx); err != nil {
		return 0, err
	}
	return kv.Revision(s.published.Load()), nil
}

// PrefixRevision implements kv.PrefixRevisioner.
func (s *Store) PrefixRevision(ctx context.Context, prefix string) (revision kv.Revision, ok bool, err error) {
	if err := s.checkOpen(ctx); err != nil {
		return 0, false, err
	}
	return s.counts.newestOf(prefix), true, nil
}

// RequestProgress implements kv.Backend.
func (s *Store) RequestProgress(ctx context.Context) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	s.ring.requestProgress(kv.Revision(s.published.Load()))
	return nil
}

// CompactedRevision implements kv.Backend.
func (s *Store) CompactedRevision(ctx context.Context) (kv.Revision, error) {
	if err := s.checkOpen(ctx); err != nil {
		return 0, err
	}
	return kv.Revision(s.compacted.Load()), nil
}

// Health implements kv.Backend. A store with a damaged file serves the undamaged data, and reports
// kv.ErrCorrupt.
func (s *Store) Health(ctx context.Context) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	err := s.rejectionLocked()
	if err == nil {
		err = s.mu.full
	}
	s.mu.Unlock()
	if err == nil {
		err = s.stall.err()
	}
	if err == nil {
		err = s.damage()
	}
	return err
}

// damage returns an error for the last damage that was detected since the store was opened, or nil.
func (s *Store) damage() error {
	file := s.disk.damaged.Load()
	if file == nil {
		return nil
	}
	return fmt.Errorf("%s is damaged; restore the data directory from a snapshot: %w", *file, kv.ErrCorrupt)
}

func (s *Store) checkOpen(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return kv.ErrClosed
	}
	return ctx.Err()
}

// Close implements kv.Backend.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return kv.ErrClosed
	}
	s.mu.closed = true
	s.mu.work.Broadcast()
	s.mu.Unlock()
	s.cancel()
	s.disk.abandonIfFailed()
	s.tasks.Wait()
	s.life.Lock()
	defer s.life.Unlock()
	var err error
	if s.engine != nil {
		if !s.engine.readOnly && s.engine.guard.Failure() == nil {
			err = s.writeMark(s.engine)
		}
		err = errors.Join(err, s.engine.close())
		s.engine = nil
	}
	s.metrics.unregister()
	return errors.Join(err, s.acks.close(), s.disk.unlock())
}
