package fairqueue

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Config configures the queues of a Set.
type Config struct {
	// Exempt executes all requests immediately.
	Exempt bool
	// Queues is the number of queues. With 0, requests are rejected if there are not enough free
	// seats.
	Queues int
	// HandSize is the number of queues per flow. QueueLengthLimit is the maximum number of waiting
	// requests per queue.
	HandSize, QueueLengthLimit int
}

// Limits contains the capacity of a Set.
type Limits struct {
	Seats int // number of seats
	// Denominator is the value that corresponds to a ratio of 1 in the meters Seats, Executing and
	// Demand.
	Denominator int
}

// Set contains the queues and seats of one priority level. It is safe for concurrent use.
//
// Every caller that locks the set first advances its clock (see lock), which processes earlier
// events, such as seats that became free. A timer runs only while requests wait for such seats.
type Set struct {
	mu sync.Mutex
	// mu guards the following fields.
	config     Config
	limits     Limits
	queues     []*queue // elements are nil before the first use; queues beyond config.Queues only drain
	lastServed int      // index of the last dispatched queue
	hands      int      // number of requests with a hand so far
	active     int      // number of active queues
	// progress is the virtual time, in seat-seconds of service that each active queue has received.
	progress SeatSeconds
	now      time.Time

	executing                list
	waiting                  int
	seatsInUse, seatsWaiting int
	// lingering contains the seats of completed requests that are still occupied, ordered by the
	// time at which they become free.
	lingering  []lingering
	timer      *time.Timer
	dispatched uint64
	rejected   [reasons]uint64

	demand demand
	meters Meters
	// last is the state when the last request left its queue, or nil.
	last *Dispatch
}

// Meters measures the occupied seats, the executing requests and the demand as fractions of
// Limits.Denominator, and the waiting requests as a fraction of the queue capacity.
type Meters struct{ Seats, Executing, Waiting, Demand Meter }

// lingering describes seats that remain occupied after their request is complete.
type lingering struct {
	until time.Time
	seats int
	flow  *Flow
	queue *queue
}

// New returns a Set without seats and queues. Call Configure and SetLimits before use.
func New(bounds *Bounds) *Set {
	return &Set{now: time.Now(), meters: Meters{
		Seats: newMeter(bounds.Seats), Executing: newMeter(bounds.Requests), Waiting: newMeter(bounds.Requests), Demand: newMeter(bounds.Demand),
	}}
}

// Bounds contains the upper bounds of the buckets of Meters, in ascending order. Requests applies
// to Executing and Waiting.
type Bounds struct{ Seats, Requests, Demand []float64 }

// Configure changes the configuration. Waiting requests remain in their queues, including removed queues.
func (s *Set) Configure(config Config) {
	s.lock(time.Now())
	defer s.mu.Unlock()
	s.config = config
	s.removeExcessQueues()
	s.meters.Waiting.setDenominator(max(config.QueueLengthLimit, 1) * max(config.Queues, 1))
	s.dispatch()
}

// SetLimits changes the number of seats, and dispatches waiting requests if seats become free.
// Executing requests keep their seats.
func (s *Set) SetLimits(limits Limits) {
	s.lock(time.Now())
	defer s.mu.Unlock()
	s.limits = limits
	for _, m := range []*Meter{&s.meters.Seats, &s.meters.Executing, &s.meters.Demand} {
		m.setDenominator(limits.Denominator)
	}
	s.dispatch()
}

// Outcome is the result of Start, Wait or Cancel.
type Outcome uint8

// Outcomes.
const (
	// Rejected means that the caller must respond with an error. It must not call Finish.
	Rejected Outcome = iota
	// Executing means that the request has its seats. The caller must call Finish.
	Executing
	// Waiting means that the request is queued. The caller must call Wait or Cancel.
	Waiting
)

// Start executes, enqueues or rejects a request. It does not block. now is the current time.
func (s *Set) Start(now time.Time, r *Request) Outcome {
	s.lock(now)
	defer s.mu.Unlock()
	r.arrived, r.arrivalR = s.now, s.progress
	if s.config.Queues == 0 {
		if !s.fits(r.Work.Seats()) {
			s.reject(r, ConcurrencyLimit)
			return Rejected
		}
		s.execute(r)
		return Executing
	}
	q := s.chooseQueue(r.Hash)
	if s.waiting == 0 && s.seatsInUse < s.limits.Seats && s.fits(r.Work.Seats()) {
		s.activate(q)
		r.queue = q
		s.recordDispatch(q)
		s.executeFrom(q, r)
		return Executing
	}
	if q.waiting.length >= s.config.QueueLengthLimit {
		s.reject(r, QueueFull)
		return Rejected
	}
	s.enqueue(q, r)
	s.dispatch()
	if r.state == isExecuting {
		return Executing
	}
	r.Flow.Queued++
	r.dispatched = make(chan struct{})
	s.setTimer()
	return Waiting
}

// QueueLength returns the number of waiting requests in the queue of r, including r. It returns 0
// if r was never queued.
func (s *Set) QueueLength(r *Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.queue == nil {
		return 0
	}
	return r.queue.waiting.length
}

// Wait blocks until a waiting request is executed (Executing), ctx ends (Rejected), or the time until is
// reached (Waiting). In the last case, the request is still queued, and the caller must call Wait or Cancel.
func (s *Set) Wait(ctx context.Context, r *Request, until time.Time) Outcome {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-r.dispatched:
		return Executing
	case <-timer.C:
		return Waiting
	case <-ctx.Done():
		return s.Cancel(r, Cancelled)
	}
}

// Cancel removes a waiting request from its queue and rejects it for the given reason. It returns
// Executing if the request has received its seats in the meantime.
func (s *Set) Cancel(r *Request, reason Reason) Outcome {
	s.lock(time.Now())
	defer s.mu.Unlock()
	if r.state == isExecuting {
		return Executing
	}
	s.dequeue(r)
	s.deactivateIfIdle(r.queue)
	s.reject(r, reason)
	s.dispatch() // the next request may need fewer seats
	return Rejected
}

// Finish ends an executing request, and returns the duration of its execution. Its seats become
// free after AdditionalLatency. now is the current time. Finish panics if the request is not
// executing.
func (s *Set) Finish(now time.Time, r *Request) time.Duration {
	s.lock(now)
	defer s.mu.Unlock()
	if r.state != isExecuting {
		panic("fairqueue: Finish of a request that is not executing")
	}
	r.state = isDone
	took := s.now.Sub(r.started)
	s.executing.remove(r)
	s.meters.Executing.set(float64(s.executing.length))
	r.Flow.ExecutingRequests--
	if q := r.queue; q != nil {
		q.nextDispatchR += workOf(r.Work.InitialSeats, took-estimatedDuration)
		q.limitCatchUp()
		q.executing--
		s.deactivateIfIdle(q)
	}
	left := lingering{until: s.now.Add(r.Work.AdditionalLatency), seats: r.Work.Seats(), flow: r.Flow, queue: r.queue}
	if r.Work.AdditionalLatency > 0 {
		s.addLingering(left)
	} else {
		s.release(left)
	}
	s.dispatch()
	return took
}

// Idle reports whether no request is waiting or executing. Seats may still be lingering.
func (s *Set) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting == 0 && s.executing.length == 0
}

// TakeDemand returns the demand since the last call, and starts a new period.
func (s *Set) TakeDemand() Demand {
	s.lock(time.Now())
	defer s.mu.Unlock()
	return s.demand.take()
}

// lock acquires the lock and advances the clock to now.
func (s *Set) lock(now time.Time) {
	s.mu.Lock()
	for len(s.lingering) > 0 && !s.lingering[0].until.After(now) {
		left := s.lingering[0]
		s.lingering = slices.Delete(s.lingering, 0, 1)
		s.advance(left.until)
		s.release(left)
	}
	s.advance(now)
}

// advance advances the clock. The state must not have changed since the current time of the clock.
func (s *Set) advance(to time.Time) {
	by := to.Sub(s.now)
	if by <= 0 {
		return // another caller read a later time and acquired the lock first
	}
	s.now = to
	if s.active > 0 {
		s.progress += SeatSeconds(float64(min(s.seatsInUse+s.seatsWaiting, s.limits.Seats)) / float64(s.active) * by.Seconds())
	}
	s.demand.advance(by)
	for _, m := range []*Meter{&s.meters.Seats, &s.meters.Executing, &s.meters.Waiting, &s.meters.Demand} {
		m.advance(by)
	}
}

// updateMeters updates the meters after a change of the seats in use or the demand.
func (s *Set) updateMeters() {
	requested := float64(s.seatsInUse + s.seatsWaiting)
	s.demand.set(requested)
	s.meters.Demand.set(requested)
	s.meters.Seats.set(float64(s.seatsInUse))
}

// fits reports whether enough seats are free. A request for more seats than the limit fits if no
// other request is executing.
func (s *Set) fits(seats int) bool {
	switch {
	case s.config.Exempt:
		return true
	case seats > s.limits.Seats:
		return s.executing.length == 0
	}
	return s.seatsInUse+seats <= s.limits.Seats
}

// chooseQueue returns the queue with the least waiting work in the hand of a flow.
func (s *Set) chooseQueue(hash uint64) *queue {
	var dealt [MaxHandSize]int
	hand := dealt[:max(1, min(s.config.HandSize, s.config.Queues, MaxHandSize))]
	deal(hash, s.config.Queues, hand)
	if more := s.config.Queues - len(s.queues); more > 0 {
		s.queues = append(s.queues, make([]*queue, more)...)
	}
	// Start at a different queue each time. Otherwise, ties would favor the first queue of a hand, which can
	// be part of other hands.
	s.hands++
	offset := s.hands % len(hand)
	var least *queue
	for i := range hand {
		at := &s.queues[hand[(offset+i)%len(hand)]]
		if *at == nil {
			*at = &queue{}
		}
		if q := *at; least == nil || q.work < least.work {
			least = q
		}
	}
	return least
}

// activate starts the virtual clock of an idle queue.
func (s *Set) activate(q *queue) {
	if !q.active() {
		q.nextDispatchR = s.progress
		s.active++
	}
}

// deactivateIfIdle updates a queue after a request has left it, and deactivates it if it is empty.
func (s *Set) deactivateIfIdle(q *queue) {
	if q.active() {
		q.limitCatchUp()
		return
	}
	s.active--
	if s.active == 0 {
		s.progress = 0 // no other queue is active, so the value is not compared
	}
	s.removeExcessQueues()
}

// removeExcessQueues removes empty queues beyond the configured number.
func (s *Set) removeExcessQueues() {
	for n := len(s.queues); n > s.config.Queues && !s.queues[n-1].active(); n-- {
		s.queues[n-1] = nil
		s.queues = s.queues[:n-1]
	}
}

func (s *Set) enqueue(q *queue, r *Request) {
	s.activate(q)
	r.queue, r.state = q, isWaiting
	q.push(r)
	q.limitCatchUp()
	s.countWaiting(r, 1)
}

func (s *Set) dequeue(r *Request) {
	r.queue.remove(r)
	s.countWaiting(r, -1)
}

func (s *Set) countWaiting(r *Request, n int) {
	seats := n * r.Work.Seats()
	s.waiting += n
	s.seatsWaiting += seats
	r.Flow.WaitingRequests += n
	r.Flow.WaitingSeats += seats
	s.meters.Waiting.set(float64(s.waiting))
	s.updateMeters()
}

func (s *Set) reject(r *Request, reason Reason) {
	r.state = isDone
	s.rejected[reason]++
	r.Flow.Rejected[reason]++
}

// dispatch executes waiting requests while the next request fits.
func (s *Set) dispatch() {
	for s.waiting > 0 && s.seatsInUse < s.limits.Seats {
		index := s.next()
		q := s.queues[index]
		r := q.waiting.first
		if !s.fits(r.Work.Seats()) {
			r.Flow.NoAccommodation++
			break
		}
		s.lastServed = index
		s.recordDispatch(q)
		s.dequeue(r)
		r.Work.limitFinalSeats(s.limits.Seats)
		s.executeFrom(q, r)
		if r.dispatched != nil {
			close(r.dispatched)
		}
	}
	s.setTimer()
}

// next returns the index of the queue whose oldest request would finish first in virtual time. Ties are
// broken in the order of queues after the last served queue. It returns -1 if no request is waiting.
func (s *Set) next() int {
	best, finish := -1, SeatSeconds(0)
	for i := range s.queues {
		index := (s.lastServed + 1 + i) % len(s.queues)
		q := s.queues[index]
		if q == nil || q.waiting.first == nil {
			continue
		}
		if at := q.nextDispatchR + q.waiting.first.Work.total(); best < 0 || at < finish {
			best, finish = index, at
		}
	}
	return best
}

func (s *Set) executeFrom(q *queue, r *Request) {
	q.executing++
	q.seatsInUse += r.Work.Seats()
	q.nextDispatchR += r.Work.total()
	q.limitCatchUp()
	s.execute(r)
}

func (s *Set) execute(r *Request) {
	seats := r.Work.Seats()
	r.state, r.started = isExecuting, s.now
	s.executing.push(r)
	s.seatsInUse += seats
	s.dispatched++
	r.Flow.Dispatched++
	r.Flow.ExecutingRequests++
	r.Flow.ExecutingSeats += seats
	s.meters.Executing.set(float64(s.executing.length))
	s.updateMeters()
}

// addLingering inserts occupied seats, ordered by the time at which they become free.
func (s *Set) addLingering(left lingering) {
	at := len(s.lingering)
	for at > 0 && s.lingering[at-1].until.After(left.until) {
		at--
	}
	s.lingering = slices.Insert(s.lingering, at, left)
}

func (s *Set) release(left lingering) {
	s.seatsInUse -= left.seats
	left.flow.ExecutingSeats -= left.seats
	if left.queue != nil {
		left.queue.seatsInUse -= left.seats
	}
	s.updateMeters()
}

// setTimer starts the timer for the next lingering seats if requests are waiting.
func (s *Set) setTimer() {
	if s.waiting == 0 || len(s.lingering) == 0 {
		return
	}
	in := s.lingering[0].until.Sub(s.now)
	if s.timer == nil {
		s.timer = time.AfterFunc(in, s.expire)
		return
	}
	s.timer.Reset(in)
}

func (s *Set) expire() {
	s.lock(time.Now())
	defer s.mu.Unlock()
	s.dispatch()
}
