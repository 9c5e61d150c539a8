package fairqueue

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Config is how a level treats requests that find no seats.
type Config struct {
	// Exempt: there is no limit.
	Exempt bool
	// Queues is how many queues they wait in; 0: they are rejected.
	Queues int
	// HandSize is how many of the queues a flow may use, QueueLengthLimit how many
	// requests wait in each.
	HandSize, QueueLengthLimit int
}

// Limits are how many seats there are.
type Limits struct {
	Seats int
	// Denominator is the denominator of the meters.
	Denominator int
}

// Set contains the queues and seats of one priority level. It is safe for concurrent use.
//
// Every caller that locks the set first advances its clock (lock), which processes the events since
// the last call, such as seats that became free. A timer runs only while requests wait for such
// seats.
type Set struct {
	mu sync.Mutex
	// mu guards the following fields.
	config Config
	limits Limits
	queues []*queue // nil before the first use; queues beyond config.Queues only drain
	robin  int      // the queue that was served last
	deals  int      // how many requests were dealt a hand
	active int      // queues that are
	// progress is the seat-seconds that each active queue has been given.
	progress SeatSeconds
	now      time.Time

	executing                list
	waiting                  int
	seatsInUse, seatsWaiting int
	// lingering are completed requests with occupied seats, ordered by the time at which the seats
	// become free.
	lingering  []lingering
	timer      *time.Timer
	dispatched uint64
	rejected   [reasons]uint64

	demand demand
	meters Meters
	// last is the state when the last request left its queue, or nil.
	last *Dispatch
}

// Meters are the measurements of a Set: seats, executing requests and demand relative to the limit,
// and waiting requests relative to the queue capacity.
type Meters struct{ Seats, Executing, Waiting, Demand Meter }

// lingering is the seats of a request that is done.
type lingering struct {
	until time.Time
	seats int
	flow  *Flow
	queue *queue
}

// New returns a Set without seats.
func New(bounds *Bounds) *Set {
	return &Set{now: time.Now(), meters: Meters{
		Seats: newMeter(bounds.Seats), Executing: newMeter(bounds.Requests), Waiting: newMeter(bounds.Requests), Demand: newMeter(bounds.Demand),
	}}
}

// Bounds are the upper bounds of the buckets of Meters.
type Bounds struct{ Seats, Requests, Demand []float64 }

// Configure changes the configuration. Waiting requests continue to wait.
func (s *Set) Configure(config Config) {
	s.lock(time.Now())
	defer s.mu.Unlock()
	s.config = config
	if more := config.Queues - len(s.queues); more > 0 {
		s.queues = append(s.queues, make([]*queue, more)...)
	}
	s.trim()
	s.meters.Waiting.setDenominator(max(config.QueueLengthLimit, 1) * max(config.Queues, 1))
	s.dispatch()
}

// SetLimits changes how many seats there are.
func (s *Set) SetLimits(limits Limits) {
	s.lock(time.Now())
	defer s.mu.Unlock()
	s.limits = limits
	for _, m := range []*Meter{&s.meters.Seats, &s.meters.Executing, &s.meters.Demand} {
		m.setDenominator(limits.Denominator)
	}
	s.dispatch()
}

// Outcome is the result of queuing a request.
type Outcome uint8

// Outcomes.
const (
	// Rejected: the caller must respond with an error and must not call Finish.
	Rejected Outcome = iota
	// Executing: it has its seats; Finish must follow.
	Executing
	// Waiting: Wait must follow.
	Waiting
)

// Start gives a request its seats, enqueues it, or rejects it. now is the current time.
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
	q := s.choose(r.Hash)
	if s.waiting == 0 && s.seatsInUse < s.limits.Seats && s.fits(r.Work.Seats()) {
		s.begin(q)
		r.queue = q
		s.noteDispatch(q)
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
	r.decided = make(chan struct{})
	s.setTimer()
	return Waiting
}

// QueueLength returns how many requests wait in the queue of one that waits.
func (s *Set) QueueLength(r *Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.queue == nil {
		return 0
	}
	return r.queue.waiting.length
}

// Wait waits until a request is executed, until ctx ends, in which case it is rejected,
// or until a time: it then still waits, and either Wait or Leave must follow.
func (s *Set) Wait(ctx context.Context, r *Request, until time.Time) Outcome {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-r.decided:
		return Executing
	case <-timer.C:
		return Waiting
	case <-ctx.Done():
		return s.Leave(r, Cancelled)
	}
}

// Leave rejects a request that waits, unless it has just got its seats.
func (s *Set) Leave(r *Request, why Reason) Outcome {
	s.lock(time.Now())
	defer s.mu.Unlock()
	if r.state == isExecuting {
		return Executing
	}
	s.dequeue(r)
	s.settle(r.queue)
	s.reject(r, why)
	s.dispatch() // the next one may need fewer seats
	return Rejected
}

// Finish ends an executing request, and returns how long it was executed. Its seats
// are free after its AdditionalLatency. now is the time of the call.
func (s *Set) Finish(now time.Time, r *Request) time.Duration {
	s.lock(now)
	defer s.mu.Unlock()
	if r.state != isExecuting {
		panic("fairqueue: a request that is not executed is finished")
	}
	r.state = isDone
	took := s.now.Sub(r.started)
	s.executing.remove(r)
	s.meters.Executing.set(float64(s.executing.length))
	r.Flow.ExecutingRequests--
	if q := r.queue; q != nil {
		q.nextDispatchR += workOf(r.Work.InitialSeats, took-guess)
		q.bound()
		q.executing--
		s.settle(q)
	}
	left := lingering{until: s.now.Add(r.Work.AdditionalLatency), seats: r.Work.Seats(), flow: r.Flow, queue: r.queue}
	if r.Work.AdditionalLatency > 0 {
		s.linger(left)
	} else {
		s.release(left)
	}
	s.dispatch()
	return took
}

// Idle reports whether no request waits or is executed.
func (s *Set) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting == 0 && s.executing.length == 0
}

// TakeDemand returns the demand since the last call.
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

// advance advances the clock. No state has changed since its current time.
func (s *Set) advance(to time.Time) {
	by := to.Sub(s.now)
	if by <= 0 {
		return // others read the time earlier and had the lock later
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

// changed updates the meters after a change of the seats in use or the demand.
func (s *Set) changed() {
	wanted := float64(s.seatsInUse + s.seatsWaiting)
	s.demand.set(wanted)
	s.meters.Demand.set(wanted)
	s.meters.Seats.set(float64(s.seatsInUse))
}

// fits reports whether the seats are free. A request for more seats than the limit fits if all
// seats are free.
func (s *Set) fits(seats int) bool {
	switch {
	case s.config.Exempt:
		return true
	case seats > s.limits.Seats:
		return s.executing.length == 0
	}
	return s.seatsInUse+seats <= s.limits.Seats
}

// choose returns the queue of a flow's hand in which the least work waits.
func (s *Set) choose(hash uint64) *queue {
	var dealt [MaxHandSize]int
	hand := dealt[:max(1, min(s.config.HandSize, s.config.Queues, MaxHandSize))]
	deal(hash, s.config.Queues, hand)
	// Hands overlap, so that the first card must not always be looked at first.
	s.deals++
	offset := s.deals % len(hand)
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

// begin activates an idle queue.
func (s *Set) begin(q *queue) {
	if !q.active() {
		q.nextDispatchR = s.progress
		s.active++
	}
}

// settle deactivates a queue without requests.
func (s *Set) settle(q *queue) {
	if q.active() {
		q.bound()
		return
	}
	s.active--
	if s.active == 0 {
		s.progress = 0 // no other queue is active, so the value is not compared
	}
	s.trim()
}

// trim drops queues that there are too many of, once they are empty.
func (s *Set) trim() {
	for n := len(s.queues); n > s.config.Queues && !s.queues[n-1].active(); n-- {
		s.queues[n-1] = nil
		s.queues = s.queues[:n-1]
	}
}

func (s *Set) enqueue(q *queue, r *Request) {
	s.begin(q)
	r.queue, r.state = q, isWaiting
	q.push(r)
	q.bound()
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
	s.changed()
}

func (s *Set) reject(r *Request, why Reason) {
	r.state = isDone
	s.rejected[why]++
	r.Flow.Rejected[why]++
}

// dispatch executes waiting requests for as long as there are seats for the next.
func (s *Set) dispatch() {
	for s.waiting > 0 && s.seatsInUse < s.limits.Seats {
		index := s.next()
		q := s.queues[index]
		r := q.waiting.first
		if !s.fits(r.Work.Seats()) {
			r.Flow.NoAccommodation++
			break
		}
		s.robin = index
		s.noteDispatch(q)
		s.dequeue(r)
		r.Work.narrow(s.limits.Seats)
		s.executeFrom(q, r)
		if r.decided != nil {
			close(r.decided)
		}
	}
	s.setTimer()
}

// next returns the queue whose oldest request would finish first. Ties are broken by the order
// after the last served queue.
func (s *Set) next() int {
	best, finish := -1, SeatSeconds(0)
	for i := range s.queues {
		index := (s.robin + 1 + i) % len(s.queues)
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
	q.bound()
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
	s.changed()
}

// linger occupies the seats of a completed request until a time.
func (s *Set) linger(left lingering) {
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
	s.changed()
}

// setTimer starts the timer for the next lingering seats that waiting requests need.
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
