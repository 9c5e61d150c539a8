package fairqueue

import "time"

// Request is a request in a Set. Set the exported fields before Set.Start. A Request must be used
// with one Set only, and only once.
type Request struct {
	// Flow contains the counters of the request's flow. Required.
	Flow *Flow
	// Hash selects the hand of queues. Requests of the same flow must have the same hash.
	Hash uint64
	Work Work
	// Data is copied to RequestDump.Data.
	Data any

	state    state
	queue    *queue // nil if the request was never queued
	arrived  time.Time
	arrivalR SeatSeconds
	started  time.Time
	// dispatched is closed when a request that had to wait is executed.
	dispatched chan struct{}
	// prev and next are the neighbors in the list of waiting requests of the queue, or in the list
	// of executing requests.
	prev, next *Request
}

type state uint8

const (
	isNew state = iota
	isWaiting
	isExecuting
	isDone
)

// Flow counts the requests of a flow schema. It is guarded by the lock of the Set that the requests
// use. Read it with Set.FlowCounts.
type Flow struct {
	Dispatched                        uint64
	Rejected                          [reasons]uint64
	NoAccommodation                   uint64 // dispatch attempts without enough free seats
	ExecutingRequests, ExecutingSeats int
	WaitingRequests, WaitingSeats     int
	Queued                            uint64 // queued requests so far
}

// Reason is the reason for rejecting a request.
type Reason int

// Reasons for rejecting requests. String returns the names in kube-apiserver's metrics.
const (
	// ConcurrencyLimit means that there are not enough free seats and no queues.
	ConcurrencyLimit Reason = iota
	// QueueFull means that there are not enough free seats and the queue is full.
	QueueFull
	// TimeOut means that the maximum queuing time has passed.
	TimeOut
	// Cancelled means that the client has disconnected.
	Cancelled
	reasons int = iota
)

// String returns the name of the reason in kube-apiserver's metrics.
func (r Reason) String() string {
	return [...]string{"concurrency-limit", "queue-full", "time-out", "cancelled"}[r]
}

// list is a linked list of requests, the oldest first.
type list struct {
	first, last *Request
	length      int
}

func (l *list) push(r *Request) {
	r.prev, r.next = l.last, nil
	if l.last == nil {
		l.first = r
	} else {
		l.last.next = r
	}
	l.last = r
	l.length++
}

func (l *list) remove(r *Request) {
	if r.prev == nil {
		l.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		l.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
	l.length--
}

type queue struct {
	waiting list
	// executing is the number of executing requests from the queue. seatsInUse is the number of
	// seats of these requests, plus the lingering seats of completed requests.
	executing, seatsInUse int
	// nextDispatchR is the virtual start time of the oldest waiting request.
	nextDispatchR SeatSeconds
	// Sums over the waiting requests.
	initialSeats, seats int
	work                SeatSeconds
}

// active reports whether a queue has waiting or executing requests. q may be nil.
func (q *queue) active() bool { return q != nil && (q.waiting.length > 0 || q.executing > 0) }

func (q *queue) push(r *Request) {
	q.waiting.push(r)
	q.initialSeats += r.Work.InitialSeats
	q.seats += r.Work.Seats()
	q.work += r.Work.total()
}

func (q *queue) remove(r *Request) {
	q.waiting.remove(r)
	q.initialSeats -= r.Work.InitialSeats
	q.seats -= r.Work.Seats()
	q.work -= r.Work.total()
	if q.waiting.length == 0 {
		q.work = 0 // removes rounding errors
	}
}

// limitCatchUp ensures that no request has a virtual start time before its arrival, so that a
// previously idle queue does not use more than its share.
func (q *queue) limitCatchUp() {
	if oldest := q.waiting.first; oldest != nil {
		q.nextDispatchR = max(q.nextDispatchR, oldest.arrivalR)
	}
}
