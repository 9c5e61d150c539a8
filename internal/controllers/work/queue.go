// Package work is the work queue of a controller: one goroutine at a time processes a key, and
// failures are retried with increasing delays. An idle queue has no goroutine.
package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/simulation"
)

const (
	// minDelay and maxDelay bound the delay before a retry.
	minDelay = 20 * time.Millisecond
	maxDelay = 5 * time.Minute
	// warnAfter is the number of the failure that is logged as a warning: earlier ones are mostly
	// conflicts with other writers.
	warnAfter = 4
)

// Config configures a Queue. All fields except Metrics are required.
type Config[K comparable] struct {
	// Name is the controller's, in the log.
	Name string
	// Workers is how many keys are looked at concurrently, at most.
	Workers int
	// Do looks at a key. An error, and a panic, has it called again later.
	Do     func(ctx context.Context, key K) error
	Logger *slog.Logger
	// Metrics may be nil.
	Metrics *Metrics
}

// Queue calls Do with the keys that are added to it. A key that is added while Do has
// it is done again afterwards; one that is waiting is not added twice. Methods may be
// called concurrently.
type Queue[K comparable] struct {
	config  Config[K]
	metrics *queueMetrics
	ctx     context.Context
	tasks   sync.WaitGroup

	mu struct {
		sync.Mutex
		// ready are the waiting keys in order; states contains them, and the keys that are in
		// progress or failed.
		ready   []K
		states  map[K]*state
		workers int
		closed  bool
	}
}

type state struct {
	queued, running bool
	again           bool      // was added while running
	added           time.Time // when it was queued
	failures        int
	retry           *retry // of a failed key; nil without one
}

// retry has a key looked at again at its time.
type retry struct{ stop func() }

// New returns a queue that works until ctx ends.
func New[K comparable](ctx context.Context, config Config[K]) *Queue[K] {
	q := &Queue[K]{config: config, metrics: config.Metrics.of(config.Name), ctx: ctx}
	q.mu.states = make(map[K]*state)
	return q
}

// Add has a key looked at soon.
func (q *Queue[K]) Add(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(key)
}

// AddAfter has a key looked at after a while, or again at once if Do has it now.
func (q *Queue[K]) AddAfter(key K, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stateLocked(key)
	switch {
	case s.running:
		s.again = true
		return
	case s.queued, s.retry != nil:
		return
	}
	q.laterLocked(key, s, delay)
}

func (q *Queue[K]) stateLocked(key K) *state {
	s := q.mu.states[key]
	if s == nil {
		s = &state{}
		q.mu.states[key] = s
	}
	return s
}

func (q *Queue[K]) addLocked(key K) {
	if q.mu.closed || q.ctx.Err() != nil {
		return
	}
	s := q.stateLocked(key)
	switch {
	case s.queued:
		return
	case s.running:
		s.again = true
		return
	}
	s.queued, s.added = true, time.Now()
	q.metrics.add()
	if s.retry != nil {
		s.retry.stop()
		s.retry = nil
	}
	q.mu.ready = append(q.mu.ready, key)
	if q.mu.workers < q.config.Workers {
		q.mu.workers++
		q.tasks.Go(q.run)
	}
}

// laterLocked adds a key when a delay is over.
func (q *Queue[K]) laterLocked(key K, s *state, delay time.Duration) {
	q.retryLocked(key, s, func(add func()) (stop func()) {
		timer := time.AfterFunc(delay, add)
		return func() { timer.Stop() }
	})
}

// retryLocked adds a key when the callback of start is called.
func (q *Queue[K]) retryLocked(key K, s *state, start func(add func()) (stop func())) {
	if q.mu.closed {
		return
	}
	r := &retry{}
	s.retry = r
	r.stop = start(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if s.retry == r {
			s.retry = nil
			q.addLocked(key)
		}
	})
}

// Close cancels pending retries and waits for keys in progress. The queue's context should have
// ended.
func (q *Queue[K]) Close() {
	q.mu.Lock()
	q.mu.closed = true
	q.metrics.drop(len(q.mu.ready))
	q.mu.ready = nil
	for _, s := range q.mu.states {
		if s.retry != nil {
			s.retry.stop()
		}
	}
	q.mu.Unlock()
	q.tasks.Wait()
}

// run is a worker: it ends when no key is waiting.
func (q *Queue[K]) run() {
	for {
		key, added, ok := q.take()
		if !ok {
			return
		}
		task := q.metrics.start(added)
		err := q.do(key)
		q.metrics.finish(task)
		q.done(key, err)
	}
}

// take removes a key from the queue and returns it with the time at which it was added. ok is false
// when the worker must end.
func (q *Queue[K]) take() (key K, added time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.mu.ready) == 0 || q.ctx.Err() != nil {
		q.mu.workers--
		return key, added, false
	}
	key = q.mu.ready[0]
	q.mu.ready = q.mu.ready[1:]
	if len(q.mu.ready) == 0 {
		q.mu.ready = nil // release the memory of a burst
	}
	s := q.mu.states[key]
	s.queued, s.running = false, true
	return key, s.added, true
}

// do calls Do. A panic is an error.
func (q *Queue[K]) do(key K) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			q.config.Logger.Error("a controller panicked", "controller", q.config.Name, "key", key, "panic", reason, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	return q.config.Do(q.ctx, key)
}

func (q *Queue[K]) done(key K, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.mu.states[key]
	s.running = false
	if err != nil && q.ctx.Err() == nil {
		if !errors.Is(err, errNotDue) {
			s.failures++
			q.metrics.retry()
			q.log(key, s.failures, err)
		}
		if !s.again {
			q.againLocked(key, s, err)
			return
		}
	} else {
		s.failures = 0
	}
	if s.again {
		s.again = false
		q.addLocked(key)
		return
	}
	delete(q.mu.states, key)
}

// againLocked adds a key again after an error.
func (q *Queue[K]) againLocked(key K, s *state, err error) {
	var due *dueError
	if !errors.As(err, &due) {
		q.laterLocked(key, s, delayAfter(s.failures, err))
		return
	}
	q.retryLocked(key, s, func(add func()) (stop func()) { return simulation.From(q.ctx).AfterFunc(due.at, add) })
}

func (q *Queue[K]) log(key K, failures int, err error) {
	level := slog.LevelDebug
	if failures == warnAfter {
		level = slog.LevelWarn
	}
	q.config.Logger.Log(q.ctx, level, "a controller will try again", "controller", q.config.Name, "key", key, "failures", failures, "err", err)
}

// delayAfter grows with the failures; the server's own word (Retry-After) counts
// more.
func delayAfter(failures int, err error) time.Duration {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		return time.Duration(seconds) * time.Second
	}
	var later *LaterError
	if errors.As(err, &later) {
		return later.After
	}
	delay := maxDelay
	if failures < 16 {
		delay = min(maxDelay, minDelay<<(failures-1))
	}
	return delay/2 + rand.N(delay/2)
}

// LaterError is an error of Do with a retry delay.
type LaterError struct {
	After time.Duration
	Err   error
}

// errNotDue is behind Later and At.
var errNotDue = errors.New("it is not time yet")

// Later returns an error of Do that schedules the key after a delay without a failure.
func Later(after time.Duration) error { return &LaterError{After: after, Err: errNotDue} }

func (e *LaterError) Error() string { return e.Err.Error() }

// Unwrap implements errors.Unwrap.
func (e *LaterError) Unwrap() error { return e.Err }

// dueError is an error of Do with a retry time.
type dueError struct{ at time.Time }

func (e *dueError) Error() string { return errNotDue.Error() }

// Unwrap implements errors.Unwrap.
func (e *dueError) Unwrap() error { return errNotDue }

// At returns an error of Do that schedules the key at a client-visible time without a failure.
func At(t time.Time) error { return &dueError{t} }

// Due returns At for a future time, and nil otherwise.
func Due(ctx context.Context, t time.Time) error {
	if simulation.Now(ctx).Before(t) {
		return At(t)
	}
	return nil
}
