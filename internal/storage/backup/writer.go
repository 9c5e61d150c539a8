package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"filippo.io/age"
	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// Defaults of Config.
const (
	DefaultInterval     = 5 * time.Second
	DefaultBaseInterval = 24 * time.Hour
	DefaultRetention    = 7 * 24 * time.Hour
)

const (
	// Minimum and maximum delay before the writer connects to the target again after an error.
	retryFirst = time.Second
	retryLast  = 30 * time.Second
	// baseRetry is the delay before a periodic base is uploaded again after an error.
	baseRetry = 10 * time.Minute
)

// Config is the configuration of a Writer. Backend and Target are required.
type Config struct {
	// Backend is an embedded store.
	Backend kv.Backend
	Target  Target
	// Interval is the maximum time between a commit and the upload of its segment; 0 selects
	// DefaultInterval.
	Interval time.Duration
	// BaseInterval is the time between two bases; 0 selects DefaultBaseInterval.
	BaseInterval time.Duration
	// Retention is the minimum time for which each state can be restored; 0 selects DefaultRetention. Objects
	// that are needed only for older states are deleted.
	Retention time.Duration
	// Recipients encrypt the objects; nil disables encryption.
	Recipients []age.Recipient
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
	// Registerer registers the metrics; nil disables them.
	Registerer prometheus.Registerer
}

// Writer uploads the commits of a store to a target. A failure of the target never blocks the store. The
// store holds the commits that are not uploaded, but at most for kv.MaxHold. If a failure lasts longer, the
// Writer begins a new generation, and the commits in between are missing from the backup. Its methods are
// safe for concurrent use.
type Writer struct {
	config  Config
	log     *slog.Logger
	metrics *metrics

	ctx    context.Context
	cancel context.CancelFunc
	// stopping is closed by Close.
	stopping chan struct{}
	stop     sync.Once
	tasks    sync.WaitGroup

	// The fields below are used only by run and the functions that it calls.

	// generation is "" until a generation is resumed or begun. position is the newest uploaded revision of
	// the generation, and positionTime the time of its commit.
	generation   string
	position     kv.Revision
	positionTime time.Time
	baseRevision kv.Revision // revision of the newest base
	// basePins are the known pins of the newest base; empty if another Writer has uploaded the base.
	basePins embedded.PinSet
	nextBase time.Time
	hold     func()

	state state
}

// state is the progress of a Writer, for health checks and metrics.
type state struct {
	sync.Mutex
	// pending is the time since which commits might not have been uploaded; zero if all commits are uploaded.
	pending  time.Time
	position kv.Revision
	err      error // error of the last attempt
}

// Start starts a Writer, which runs until Close. It does not wait for the target. It returns an
// error if its metrics are already registered.
func Start(config Config) (*Writer, error) {
	w := &Writer{config: config, log: config.Logger, stopping: make(chan struct{}), hold: func() {}}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	w.log = w.log.With("target", config.Target.String())
	for _, d := range []struct {
		value  *time.Duration
		preset time.Duration
	}{{&w.config.Interval, DefaultInterval}, {&w.config.BaseInterval, DefaultBaseInterval}, {&w.config.Retention, DefaultRetention}} {
		if *d.value <= 0 {
			*d.value = d.preset
		}
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.state.pending = time.Now()
	var err error
	if w.metrics, err = newMetrics(config.Registerer, w); err != nil {
		return nil, err
	}
	w.tasks.Go(w.run)
	return w, nil
}

// Close uploads the remaining commits, at most until ctx ends, and stops the Writer. It must be called before
// the store is closed. The error means that commits were not uploaded; a later Writer uploads them if the
// store still has them.
func (w *Writer) Close(ctx context.Context) error {
	w.stop.Do(func() { close(w.stopping) })
	cancel := context.AfterFunc(ctx, w.cancel)
	w.tasks.Wait()
	cancel()
	w.cancel()
	w.hold()
	w.metrics.unregister()
	w.state.Lock()
	defer w.state.Unlock()
	if !w.state.pending.IsZero() {
		return fmt.Errorf("the newest changes are not in the backup %s: %w", w.config.Target, errors.Join(w.state.err, ctx.Err()))
	}
	return nil
}

// Lag returns the age of the oldest commit that has not been uploaded; 0 if all commits are in the
// backup.
func (w *Writer) Lag() time.Duration {
	w.state.Lock()
	defer w.state.Unlock()
	if w.state.pending.IsZero() {
		return 0
	}
	return max(0, time.Since(w.state.pending)) // the time of a commit may come from another clock
}

// Check returns an error if the backup is behind by much more than the interval.
func (w *Writer) Check() error {
	lag := w.Lag()
	if lag <= max(time.Minute, 10*w.config.Interval) {
		return nil
	}
	w.state.Lock()
	defer w.state.Unlock()
	if w.state.err == nil {
		return fmt.Errorf("the backup is %s behind", lag.Round(time.Second))
	}
	return fmt.Errorf("the backup is %s behind: %w", lag.Round(time.Second), w.state.err)
}

// Position returns the newest uploaded revision; 0 if it is unknown.
func (w *Writer) Position() kv.Revision {
	w.state.Lock()
	defer w.state.Unlock()
	return w.state.position
}

// run uploads until Close.
func (w *Writer) run() {
	defer w.cancel() // ends the deletion of old objects
	w.holdHistory()
	delay := retryFirst
	for {
		began, last := time.Now(), w.isStopping()
		err := w.follow()
		if err == nil || w.ctx.Err() != nil {
			return
		}
		w.failed(err)
		if last {
			return
		}
		if time.Since(began) > retryLast {
			delay = retryFirst
		}
		w.log.Warn("the backup has failed; retrying", "after", delay, "err", err)
		select {
		case <-w.ctx.Done():
			return
		case <-w.stopping: // a last attempt
		case <-time.After(delay):
		}
		delay = min(2*delay, retryLast)
	}
}

// currentPins returns the pins of the store.
func (w *Writer) currentPins() (embedded.PinSet, error) {
	pinner, ok := w.config.Backend.(kv.Pinner)
	if !ok {
		return nil, nil
	}
	pins, err := pinner.Pins(w.ctx)
	return embedded.NewPinSet(pins), err
}

func (w *Writer) isStopping() bool {
	select {
	case <-w.stopping:
		return true
	default:
		return false
	}
}

// failed records that some commits might not have been uploaded.
func (w *Writer) failed(err error) {
	w.metrics.failed()
	w.state.Lock()
	defer w.state.Unlock()
	w.state.err = err
	if w.state.pending.IsZero() {
		w.state.pending = time.Now()
	}
}

// setPending records the time of the oldest commit that is not uploaded; zero if all commits are uploaded.
func (w *Writer) setPending(since time.Time) {
	w.state.Lock()
	defer w.state.Unlock()
	if w.state.pending = since; since.IsZero() {
		w.state.err = nil
	}
}

// isComplete reports whether all known commits are uploaded.
func (w *Writer) isComplete() bool {
	w.state.Lock()
	defer w.state.Unlock()
	return w.state.pending.IsZero()
}

// moveTo sets the position, and holds the later commits in the store.
func (w *Writer) moveTo(at kv.Revision, t time.Time) {
	w.position, w.positionTime = at, t
	w.state.Lock()
	w.state.position = at
	w.state.Unlock()
	w.holdFrom(at)
}

// holdHistory holds the commits that an earlier Writer might not have uploaded, until the target responds.
func (w *Writer) holdHistory() {
	oldest, err := w.config.Backend.CompactedRevision(w.ctx)
	if err == nil {
		w.holdFrom(max(oldest, 1))
	}
}

// holdFrom replaces the hold with a hold on the commits after a revision.
func (w *Writer) holdFrom(at kv.Revision) {
	_, release, err := w.config.Backend.Hold(context.WithoutCancel(w.ctx), at) // Close releases the hold
	if err != nil {
		w.log.Warn("the store does not hold the changes that are not in the backup", "err", err)
		return
	}
	w.hold()
	w.hold = release
}
