package fairqueue

import "time"

// Request is one request on its way through a Set. The exported fields are set
// before it is started; a Request must not be used twice.
type Request struct {
	// Flow is counted for.
	Flow *Flow
	// Hash chooses the queues that the request may wait in. Requests of the same
	// flow have the same.
	Hash uint64
	Work Work
	// About is data for dumps.
	About any

	state    state
	queue    *queue // nil: it went past the queues
	arrived  time.Time
	arrivalR SeatSeconds
	started  time.Time
	// decided is closed when a request that had to wait is executed.
	decided chan struct{}
	// prev and next are the neighbours in its queue, or among the executing.
	prev, next *Request
}

type state uint8

const (
	isNew state = iota
	isWaiting
	isExecuting
	isDone
)

// Flow counts the requests of one kind, such as those of a FlowSchema. It is guarded by the lock of
// the Set that its requests pass.
type Flow struct {
	Dispatched                        uint64
	Rejected                          [reasons]uint64
	NoAccommodation                   uint64 // times that the next request found too few seats
	ExecutingRequests, ExecutingSeats int
	WaitingRequests, WaitingSeats     int
	Queued                            uint64 // requests that had to wait
}

// Reason is why a request is rejected.
type Reason int

// Reasons, with kube-apiserver's names.
const (
	// ConcurrencyLimit: there are too few seats, and no queues.
	ConcurrencyLimit Reason = iota
	// QueueFull: there are too few seats, and too many requests wait.
	QueueFull
	// TimeOut: it has waited for as long as it may.
	TimeOut
	// Cancelled: the client has disconnected.
	Cancelled
	reasons int = iota
)

func (r Reason) String() string {
	return [...]string{"concurrency-limit", "queue-full", "time-out", "cancelled"}[r]
}

// list is a list of requests, oldest first.
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

// queue is one of the queues of a Set.
type queue struct {
	waiting list
	// executing is the number of executing requests of the queue; seatsInUse are the seats of these
	// and of lingering requests.
	executing, seatsInUse int
	// nextDispatchR is the virtual start time of the oldest waiting request.
	nextDispatchR SeatSeconds
	// Sums over the waiting.
	initialSeats, seats int
	work                SeatSeconds
}

// active reports whether something happens in a queue, which may be nil.
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
		q.work = 0 // a rounding error
	}
}

// bound prevents a queue that was idle from catching up: no request has a virtual start time before
// its arrival.
func (q *queue) bound() {
	if oldest := q.waiting.first; oldest != nil {
		q.nextDispatchR = max(q.nextDispatchR, oldest.arrivalR)
	}
}
