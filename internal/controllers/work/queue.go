// Package work implements the work queue of a controller. A key is processed by at most one goroutine at a
// time, and is retried with increasing delays if its processing fails. An idle queue has no goroutine.
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
	// minDelay and maxDelay are the limits of the delay before a retry.
	minDelay = 20 * time.Millisecond
	maxDelay = 5 * time.Minute
	// warnAfter is the number of consecutive failures of a key after which a warning is logged. The first
	// failures are usually conflicts with other writers.
	warnAfter = 4
)

// Config configures a Queue. All fields except Metrics are required.
type Config[K comparable] struct {
	// Name is the name of the controller, for the log and the metrics.
	Name string
	// Workers is the maximum number of keys that are processed concurrently.
	Workers int
	// Sync processes a key. If it fails or panics, the key is retried; see also RetryError, RequeueAfter and
	// RequeueAt. ctx is the context that was passed to New.
	Sync   func(ctx context.Context, key K) error
	Logger *slog.Logger
	// Metrics records the metrics of the queue; nil disables them.
	Metrics *Metrics
}

// Queue calls Config.Sync for each key that is added. A key that is already waiting is not added again. A key
// that is added while it is being processed is processed again afterwards. The methods are safe for concurrent
// use.
type Queue[K comparable] struct {
	config  Config[K]
	metrics *queueMetrics
	ctx     context.Context
	set     *Set // nil if the queue does not belong to a set
	tasks   sync.WaitGroup

	mu struct {
		sync.Mutex
		// ready contains the waiting keys in order. states contains the keys that are waiting, running or
		// scheduled for a retry.
		ready  []K
		states map[K]*state
		// peak is the maximum length of states since the map was created.
		peak    int
		workers int
		closed  bool
	}
}

type state struct {
	queued, running bool
	requeue         bool      // added while running
	added           time.Time // time of the last enqueue
	failures        int
	retry           *retry // scheduled retry; nil if there is none
}

// retry is a scheduled retry. stop cancels the retry. at is the time that was passed to RequeueAt, or zero for
// other retries. due is the time of a retry after a failure, or zero for other retries.
type retry struct {
	stop    func()
	at, due time.Time
}

// New returns a queue that processes keys until ctx ends. The caller must call Close, usually after ctx has
// ended. If ctx was returned by WithSet, the queue is added to the set.
func New[K comparable](ctx context.Context, config Config[K]) *Queue[K] {
	set, _ := ctx.Value(setKey{}).(*Set)
	q := &Queue[K]{config: config, metrics: config.Metrics.forQueue(config.Name), ctx: ctx, set: set}
	q.mu.states = make(map[K]*state)
	set.add(q, q.pending)
	return q
}

// pending returns the state of this queue for Set.Pending.
func (q *Queue[K]) pending() (busy bool, due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.mu.states {
		switch {
		case s.queued, s.running, s.failures > 0 && s.failures < warnAfter:
			busy = true
		case s.retry != nil:
			due = earlier(due, s.retry.at)
		}
	}
	return busy, due
}

// Add enqueues a key and cancels a scheduled retry of the key. It does nothing if the context of the queue has
// ended. It does not block.
func (q *Queue[K]) Add(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(key)
}

// AddAfter enqueues a key after a delay. It replaces a later retry after a failure, because the reason of the
// failure may have disappeared. It does nothing if the key is waiting or otherwise scheduled. If the key is being
// processed, it is processed again without a delay.
func (q *Queue[K]) AddAfter(key K, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stateLocked(key)
	switch {
	case s.running:
		s.requeue = true
		return
	case s.queued:
		return
	case s.retry != nil:
		if !s.retry.due.After(time.Now().Add(delay)) {
			return
		}
		s.retry.stop()
	}
	q.addAfterLocked(key, s, delay)
}

func (q *Queue[K]) stateLocked(key K) *state {
	s := q.mu.states[key]
	if s == nil {
		s = &state{}
		q.mu.states[key] = s
		q.mu.peak = max(q.mu.peak, len(q.mu.states))
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
		s.requeue = true
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

func (q *Queue[K]) addAfterLocked(key K, s *state, delay time.Duration) {
	q.scheduleLocked(key, s, time.Time{}, func(add func()) (stop func()) {
		timer := time.AfterFunc(delay, add)
		return func() { timer.Stop() }
	})
}

// scheduleLocked schedules a retry of a key. It calls start with a function add that enqueues the key. start
// must arrange for add to be called, and returns a function that cancels this. at is the value of retry.at.
func (q *Queue[K]) scheduleLocked(key K, s *state, at time.Time, start func(add func()) (stop func())) {
	if q.mu.closed {
		return
	}
	r := &retry{at: at}
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

// Close discards waiting keys and scheduled retries, and waits until no key is being processed. The wait may be
// long unless the context of New has ended.
func (q *Queue[K]) Close() {
	q.set.remove(q)
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

// run processes waiting keys. It returns when no key is waiting.
func (q *Queue[K]) run() {
	for {
		key, added, ok := q.next()
		if !ok {
			return
		}
		task := q.metrics.start(added)
		err := q.process(key)
		q.metrics.finish(task)
		q.set.countFinished() // done must come later: it makes the key no longer pending
		q.done(key, err)
	}
}

// next removes the first key from the queue, and returns the key and the time at which it was enqueued. ok is
// false if the worker must return.
func (q *Queue[K]) next() (key K, added time.Time, ok bool) {
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

// process calls Config.Sync. A panic is logged and returned as an error.
func (q *Queue[K]) process(key K) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			q.config.Logger.Error("a controller panicked", "controller", q.config.Name, "key", key, "panic", reason, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	return q.config.Sync(q.ctx, key)
}

func (q *Queue[K]) done(key K, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.mu.states[key]
	s.running = false
	if err != nil && q.ctx.Err() == nil {
		if errors.Is(err, errRequeue) {
			s.failures = 0
		} else {
			s.failures++
			q.metrics.retry()
			q.log(key, s.failures, err)
		}
		if !s.requeue {
			q.rescheduleLocked(key, s, err)
			return
		}
	} else {
		s.failures = 0
	}
	if s.requeue {
		s.requeue = false
		q.addLocked(key)
		return
	}
	delete(q.mu.states, key)
	if len(q.mu.states) == 0 && q.mu.peak > maxIdleStates {
		q.mu.states, q.mu.peak = make(map[K]*state), 0 // release the memory of a burst
	}
}

// maxIdleStates is the maximum number of states whose memory an idle queue keeps for later keys.
const maxIdleStates = 64

// rescheduleLocked schedules a key again after Sync returned an error.
func (q *Queue[K]) rescheduleLocked(key K, s *state, err error) {
	var due *requeueAtError
	if !errors.As(err, &due) {
		delay := retryDelay(s.failures, err)
		q.addAfterLocked(key, s, delay)
		if s.failures > 0 && s.retry != nil {
			s.retry.due = time.Now().Add(delay)
		}
		return
	}
	q.scheduleLocked(key, s, due.at, func(add func()) (stop func()) { return simulation.From(q.ctx).AfterFunc(due.at, add) })
}

func (q *Queue[K]) log(key K, failures int, err error) {
	level := slog.LevelDebug
	if failures == warnAfter {
		level = slog.LevelWarn
	}
	q.config.Logger.Log(q.ctx, level, "sync failed; the key will be retried", "controller", q.config.Name, "key", key, "failures", failures, "err", err)
}

// retryDelay returns the delay before a retry. If the error specifies a delay (Retry-After or RetryError), it
// returns this delay. Otherwise, it returns a random delay that grows exponentially with the number of
// failures. Retry-After may come from an admission webhook, so it is limited to maxDelay, and it is ignored
// unless it is positive.
func retryDelay(failures int, err error) time.Duration {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		return min(time.Duration(seconds)*time.Second, maxDelay)
	}
	var later *RetryError
	if errors.As(err, &later) {
		return later.After
	}
	delay := maxDelay
	if failures < 16 {
		delay = min(maxDelay, minDelay<<(failures-1))
	}
	return delay/2 + rand.N(delay/2)
}

// RetryError is an error of Config.Sync that specifies the delay before the retry. It counts as a failure
// unless RequeueAfter returned it.
type RetryError struct {
	After time.Duration
	Err   error
}

// errRequeue is wrapped by the errors that RequeueAfter and RequeueAt return.
var errRequeue = errors.New("it is not time yet")

// RequeueAfter returns an error with which Config.Sync schedules the key again after a delay. The error does
// not count as a failure.
func RequeueAfter(after time.Duration) error { return &RetryError{After: after, Err: errRequeue} }

func (e *RetryError) Error() string { return e.Err.Error() }

// Unwrap implements errors.Unwrap.
func (e *RetryError) Unwrap() error { return e.Err }

// requeueAtError is the error that RequeueAt returns.
type requeueAtError struct{ at time.Time }

func (e *requeueAtError) Error() string { return errRequeue.Error() }

// Unwrap implements errors.Unwrap.
func (e *requeueAtError) Unwrap() error { return errRequeue }

// RequeueAt returns an error with which Config.Sync schedules the key again at the time t of the server's
// clock, which tests can move. The error does not count as a failure.
func RequeueAt(t time.Time) error { return &requeueAtError{t} }

// RequeueUntil returns RequeueAt(t) if t is in the future, and nil otherwise.
func RequeueUntil(ctx context.Context, t time.Time) error {
	if simulation.Now(ctx).Before(t) {
		return RequeueAt(t)
	}
	return nil
}
