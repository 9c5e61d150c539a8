package fleet

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
)

// plane is a declared control plane. While it is closed, it consists only of this struct. It is safe for
// concurrent use.
type plane struct {
	fleet *Fleet
	key   planeKey
	// revision is the resourceVersion of the object when the fleet received it.
	revision int64
	// opening is a lock that is held while the control plane is opened or closed. It is a semaphore, so
	// that callers can stop waiting for the lock when a context ends.
	opening *semaphore.Weighted

	mu struct {
		sync.Mutex
		spec    controlplanes.Spec
		applied int64    // resourceVersion of the object that set applied last
		removed bool     // the object is being deleted
		session *session // nil while the control plane is closed
		limits  *limiter // nil before the first session
		stored  storedUsage
		// requested is the time of the last request, and reported is the time of the last request that the
		// status contains; each is zero if there was no request. used is the start of the idle time.
		requested, reported, used time.Time
		wake                      wakeTime
		// reportDue is set if the next status update must contain the usage and the wake time.
		reportDue bool
	}
}

// storedUsage is the usage in the status of the object. A nil pointer means that the value is unknown.
type storedUsage struct{ objects, bytes *int64 }

// wakeTime is the next time at which a controller of a closed control plane has work.
type wakeTime struct {
	at time.Time // zero if there is no work
	// own is true if this process ran the controllers, and has not received a status since it reported at.
	// Otherwise, at is the time in the status, which another process may have written.
	own bool
	// reported is the wake time that the status contains, as far as this process knows.
	reported time.Time
}

// session is an open control plane, from its opening until it is closed.
type session struct {
	*controlplane.ControlPlane
	// drain ends the watches of the session, and endTunnels its upgraded connections.
	drain      *filters.Drain
	tunnels    context.Context
	endTunnels context.CancelFunc
	base       overlay.Base // nil if there is none
	detach     func()       // detaches the base, and releases the watch caches
	opened     time.Time    // time of opening, by the clock of the server
	// requests counts open requests and watches. requests and closed are guarded by plane.mu. ended is
	// closed when closed is true and the last request has ended.
	requests int
	closed   bool
	ended    chan struct{}
}

func newPlane(f *Fleet, key planeKey) *plane {
	return &plane{fleet: f, key: key, opening: semaphore.NewWeighted(1)}
}

// set applies the state of the object at a revision, unless a newer state was applied. It returns the same
// error as usable.
func (p *plane) set(object *controlplanes.ControlPlane, revision int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if revision < p.mu.applied {
		return p.usableLocked()
	}
	p.mu.applied = revision
	p.mu.spec = object.Spec
	p.mu.removed = p.mu.removed || object.DeletionTimestamp != nil
	unreported := p.mu.reportDue // the status may be older than the state of this process
	if p.mu.session == nil && !(p.mu.wake.own && unreported) {
		p.mu.wake = wakeTime{}
		if at := object.Status.WakeTime; at != nil {
			p.mu.wake.at, p.mu.wake.reported = at.Time, at.Time
		}
	}
	p.mu.stored = storedUsage{object.Status.Objects, object.Status.Bytes}
	if p.mu.limits != nil {
		p.mu.limits.set(&p.mu.spec.Limits)
		p.mu.limits.usage.setReported(p.mu.stored, unreported)
	}
	return p.usableLocked()
}

// remove marks the control plane as deleted.
func (p *plane) remove() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.removed = true
}

// usableLocked is like usable. mu must be held.
func (p *plane) usableLocked() error {
	switch {
	case p.mu.removed:
		return errRemoved
	case p.mu.spec.Paused:
		return errPaused
	}
	return nil
}

// usable returns errRemoved or errPaused if the control plane must not serve requests, and nil otherwise.
func (p *plane) usable() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.usableLocked()
}

// opened returns the open control plane, or nil if it is closed.
func (p *plane) opened() *controlplane.ControlPlane {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.session == nil {
		return nil
	}
	return p.mu.session.ControlPlane
}

// acquire returns the session for a request. It opens the control plane if it is closed. The caller must call
// release. acquire returns the errors of usable, of ctx and of opening the control plane, and errStopping if
// the fleet is being closed.
func (p *plane) acquire(ctx context.Context) (*session, error) {
	if s, err := p.join(); s != nil || err != nil {
		return s, err
	}
	if err := p.ensureOpen(ctx, time.Now()); err != nil {
		return nil, err
	}
	s, err := p.join()
	if s == nil && err == nil { // it was closed in the meantime
		return p.acquire(ctx)
	}
	return s, err
}

// ensureOpen opens the control plane, if it is closed. used is the start of the idle time of the new session.
// ensureOpen returns the same errors as acquire.
func (p *plane) ensureOpen(ctx context.Context, used time.Time) error {
	if err := p.opening.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.opening.Release(1)
	if err := p.usable(); err != nil {
		return err
	}
	if p.fleet.lifetime.Err() != nil {
		return errStopping
	}
	if p.opened() != nil {
		return nil
	}
	s, err := p.open(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.session, p.mu.used = s, used
	return nil
}

// isDue reports whether the control plane is closed and a controller has work.
func (p *plane) isDue() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.session == nil && !p.mu.wake.at.IsZero() && !p.fleet.now().Before(p.mu.wake.at) && p.usableLocked() == nil
}

// openForWork opens the control plane for its controllers. The session counts as idle from the start, so the
// control plane closes when its controllers are no longer busy.
func (p *plane) openForWork(ctx context.Context) {
	err := p.ensureOpen(ctx, time.Now().Add(-p.fleet.config.Idle))
	if err != nil && ctx.Err() == nil && p.usable() == nil {
		p.fleet.logger.Error("a control plane cannot be opened for its controllers; another attempt follows", "name", p.key.name, "err", err)
	}
}

// join adds a request to the current session, and returns the session. It returns nil, nil if the control plane
// is closed.
func (p *plane) join() (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.usableLocked(); err != nil {
		return nil, err
	}
	if p.fleet.lifetime.Err() != nil {
		return nil, errStopping
	}
	p.mu.requested = time.Now()
	p.mu.used = p.mu.requested
	if p.mu.session != nil {
		p.mu.session.requests++
	}
	return p.mu.session, nil
}

// release removes a request from its session.
func (p *plane) release(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.requests--
	p.mu.requested = time.Now()
	p.mu.used = p.mu.requested
	if s.requests == 0 && s.closed {
		close(s.ended)
	}
}

// open creates a session. The caller must hold the lock opening, and must have called usable while holding it.
// A deletion acquires the lock before it deletes the keys, so open cannot create keys after the deletion.
func (p *plane) open(ctx context.Context) (*session, error) {
	p.mu.Lock()
	source := p.mu.spec.From
	p.mu.Unlock()
	keys, err := p.fleet.ensureKeys(ctx, p.key, source)
	if err != nil {
		return nil, err
	}
	s := &session{drain: filters.NewDrain(), ended: make(chan struct{}), opened: p.fleet.now()}
	s.detach = func() {
		prefix := p.fleet.prefixOf(p.key.uid)
		p.fleet.config.Feed.Release(prefix)
		p.fleet.config.Backend.Detach(prefix)
	}
	s.tunnels, s.endTunnels = context.WithCancel(p.fleet.config.Env.Shutdown.Tunnels)
	p.mu.Lock()
	limits := p.limitsLocked()
	p.mu.Unlock()
	env, err := p.fleet.env(p, s, keys, source)
	if err == nil {
		env.Storage.Seeded, err = p.fleet.attach(ctx, s, p.key.uid, &keys.content)
	}
	if err == nil {
		s.ControlPlane, err = controlplane.New(env, p.fleet.objectPrefix(p.key.uid), p.fleet.options(keys, limits, source))
	}
	if err != nil {
		s.endTunnels()
		s.detach()
		return nil, err
	}
	if err := s.Open(ctx); err != nil {
		s.endTunnels()
		s.Close()
		s.detach()
		return nil, err
	}
	return s, nil
}

// limitsLocked returns the limits, and creates them for the first session. mu must be held.
func (p *plane) limitsLocked() *limiter {
	if p.mu.limits == nil {
		p.mu.limits = newLimiter()
		p.mu.limits.set(&p.mu.spec.Limits)
		p.mu.limits.usage.setReported(p.mu.stored, false)
	}
	return p.mu.limits
}

// close ends the current session, if there is one. It closes the watches and the upgraded connections of the
// session, and returns when all requests and goroutines of the session have ended.
func (p *plane) close() {
	_ = p.opening.Acquire(context.Background(), 1) // opening a control plane takes milliseconds
	defer p.opening.Release(1)
	p.mu.Lock()
	s := p.endLocked()
	p.mu.Unlock()
	s.end()
}

// closeIfIdle closes the session if it has had no request for the given duration and its controllers are idle.
// waiting is true if the session stays open only because its controllers are not idle yet.
func (p *plane) closeIfIdle(idle time.Duration) (waiting bool) {
	if !p.opening.TryAcquire(1) {
		return false // the control plane is being opened or closed
	}
	defer p.opening.Release(1)
	p.mu.Lock()
	s, unused := p.mu.session, p.isUnusedLocked(idle)
	p.mu.Unlock()
	if !unused {
		return false
	}
	if !s.IsIdle(p.fleet.lifetime) {
		return true
	}
	p.mu.Lock()
	if !p.isUnusedLocked(idle) { // there was a request since then
		p.mu.Unlock()
		return false
	}
	p.endLocked()
	p.mu.Unlock()
	s.end()
	p.fleet.queue.Add(p.key)
	return false
}

// isUnusedLocked reports whether there is a session that has had no request for the given duration and whose
// controllers are not busy. mu must be held.
func (p *plane) isUnusedLocked(idle time.Duration) bool {
	s := p.mu.session
	return s != nil && s.requests == 0 && time.Since(p.mu.used) >= idle && !s.busy(p.fleet.now())
}

// endLocked removes the current session from p, so that the session receives no more requests. It returns the
// session, or nil if there is none. mu must be held.
func (p *plane) endLocked() *session {
	s := p.mu.session
	if s == nil {
		return nil
	}
	wake, known := p.wakeLocked()
	if p.mu.wake.own = known; known {
		p.mu.wake.at = wake
	}
	p.mu.session, s.closed = nil, true
	p.mu.reportDue = true // the status must contain the usage and the wake time
	if s.requests == 0 {
		close(s.ended)
	}
	return s
}

// startTime is the maximum time that the controllers of a control plane need to start.
const startTime = time.Minute

// busy reports whether controllers are busy, or might not have started yet. now is the time of the server's
// clock.
func (s *session) busy(now time.Time) bool {
	busy, _, known := s.PendingWork()
	return busy || !known && now.Sub(s.opened) < startTime
}

// end ends the requests of a session and closes the control plane. It does nothing if s is nil.
func (s *session) end() {
	if s == nil {
		return
	}
	s.drain.RejectNew()
	s.drain.EndLongRunning()
	s.endTunnels()
	<-s.ended
	s.Close()
	s.detach()
}
