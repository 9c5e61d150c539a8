package processor

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultPerProcessor is how many of a kind there are for each processor. With one, which
	// would keep a get even less, a turn is another goroutine's nearly each time, which
	// made ten concurrent lists cost half as much again, and creations a fifth.
	DefaultPerProcessor = 4
	// slice is the time after which a holder yields, and the minimum time between polls: the delay
	// of a request that needs no slot.
	slice = 200 * time.Microsecond
	// patience is the time without a free slot after which waiters stop waiting for the current
	// holders.
	patience = 10 * time.Millisecond
)

// Kind is the purpose of a slot.
type Kind int

// Kinds of turns. Each has its own queue.
const (
	// Bulk is the making and sending of much: large lists.
	Bulk Kind = iota
	// Change is the computation of a write.
	Change
	kinds
)

// Turns is a fair semaphore of CPU slots: round robin between users, and in order of arrival for
// each user. A nil *Turns grants all slots immediately. It is safe for concurrent use.
type Turns struct {
	config     Config
	began      time.Time // of the clock that the times here are by
	processors atomic.Int64
	held       atomic.Int64 // turns of all kinds
	netPoller  netPoller
	queues     [kinds]queue
}

// Config configures Turns.
type Config struct {
	// Processors returns how many there are; nil: as many as Go uses.
	Processors func() int
	// PerProcessor is how many turns of a kind there are for each of them. 0:
	// DefaultPerProcessor.
	PerProcessor int
	// OnCrowd is called when writes start to wait for slots, and some time after the last one; may
	// be nil. A cause can be a disk: a goroutine in a system call occupies its processor for
	// milliseconds if Go has no other.
	OnCrowd func(waiting bool)
}

// New returns free Turns.
func New(config Config) *Turns {
	if config.Processors == nil {
		config.Processors = func() int { return runtime.GOMAXPROCS(0) }
	}
	if config.PerProcessor == 0 {
		config.PerProcessor = DefaultPerProcessor
	}
	if config.OnCrowd == nil {
		config.OnCrowd = func(bool) {}
	}
	s := &Turns{config: config, began: time.Now()}
	for i := range s.queues {
		s.queues[i].turns, s.queues[i].kind = s, Kind(i)
	}
	s.count()
	return s
}

// count updates the number of processors, because Go follows the limits of a container.
func (s *Turns) count() { s.processors.Store(int64(s.config.Processors())) }

func (s *Turns) clock() time.Duration { return time.Since(s.began) }

// busy reports whether turns may keep every processor from looking at the network.
func (s *Turns) busy() bool { return s.held.Load() >= s.processors.Load() }

// Close releases the network poller. No slot may be in use or acquired afterwards.
func (s *Turns) Close() error {
	if s == nil {
		return nil
	}
	return s.netPoller.close()
}

// queue is the turns of one kind.
type queue struct {
	turns   *Turns
	kind    Kind
	waiting atomic.Int64 // how many wait

	mu       sync.Mutex // guards the following fields and the state of slots
	held     []*Turn
	resuming line // resumed work, which has priority
	starting line
	given    uint64 // how many there were
	watched  bool   // there will be a call of look
	seen     uint64 // given, at the last call of look
}

// limit is how many turns there are.
func (q *queue) limit() int {
	return q.turns.config.PerProcessor * int(q.turns.processors.Load())
}

// state is the state of a slot.
type state int

const (
	idle state = iota
	waiting
	held
)

// Turn is the CPU slot of a request or connection. The zero value has none. All methods may be
// called on nil and concurrently, but only one goroutine at a time may wait.
type Turn struct {
	queue *queue       // nil: never began
	user  string       // owner
	since atomic.Int64 // when it was last given, by the clock of Turns
	// Guarded by queue.mu.
	state state
	come  chan struct{} // made when it is first waited for
}

// Begin waits for a slot. It has no effect if the slot is already held. Later calls use the kind
// and user of the first one. user is any text that identifies a fair share.
func (s *Turns) Begin(t *Turn, kind Kind, user string) {
	if s == nil || t == nil {
		return
	}
	if t.queue == nil {
		t.queue, t.user = &s.queues[kind], user
	}
	t.begin(false)
}

// begin waits for a slot. resumes gives priority over new work.
func (t *Turn) begin(resumes bool) {
	q := t.queue
	q.mu.Lock()
	switch {
	case t.state != idle:
		q.mu.Unlock()
		return
	case len(q.held) < q.limit() && q.waiting.Load() == 0:
		q.giveLocked(t)
		q.mu.Unlock()
	default:
		first := q.waitLocked(t, resumes)
		q.mu.Unlock()
		if first {
			q.crowd(true)
		}
		<-t.come
	}
	t.settle()
}

// settle begins the time of a turn, after a look at the network if that is due.
func (t *Turn) settle() {
	s := t.queue.turns
	if s.busy() {
		s.netPoller.poll(s.clock)
	}
	t.since.Store(int64(s.clock()))
}

func (q *queue) giveLocked(t *Turn) {
	t.state = held
	q.held = append(q.held, t)
	q.given++
	q.turns.held.Add(1)
}

// crowd reports waiting writes.
func (q *queue) crowd(waiting bool) {
	q.turns.count()
	if q.kind == Change {
		q.turns.config.OnCrowd(waiting)
	}
}

// waitLocked has a turn wait for its channel. It reports whether it is the first for a while.
func (q *queue) waitLocked(t *Turn, resumes bool) (first bool) {
	t.state = waiting
	if t.come == nil {
		t.come = make(chan struct{}, 1)
	}
	if resumes {
		q.resuming.add(t)
	} else {
		q.starting.add(t)
	}
	q.waiting.Add(1)
	if q.watched {
		return false
	}
	q.watched, q.seen = true, q.given
	time.AfterFunc(patience, q.look)
	return true
}

// nextLocked grants free slots to waiters.
func (q *queue) nextLocked() {
	for limit := q.limit(); len(q.held) < limit && q.waiting.Load() > 0; {
		t := q.resuming.next()
		if t == nil {
			t = q.starting.next()
		}
		q.waiting.Add(-1)
		q.giveLocked(t)
		t.come <- struct{}{}
	}
}

// look grants the slots of holders that exceed patience to waiters.
func (q *queue) look() {
	q.turns.count()
	if !q.lookOn() {
		q.crowd(false)
	}
}

// lookOn calls look while there are waiters.
func (q *queue) lookOn() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Load() == 0 {
		q.watched = false
		return false
	}
	if q.given == q.seen {
		for _, t := range q.held {
			q.forgetLocked(t)
		}
		clear(q.held)
		q.held = q.held[:0]
	}
	q.nextLocked()
	q.seen = q.given
	time.AfterFunc(patience, q.look)
	return true
}

// forgetLocked ends a slot without removing it from the held ones.
func (q *queue) forgetLocked(t *Turn) {
	t.state = idle
	q.turns.held.Add(-1)
}

// End releases the slot. It has no effect without a slot.
func (t *Turn) End() { t.Pause() }

// Pause releases the slot while the holder waits, and returns it; nil without a slot:
//
//	defer turn.Pause().Resume()
func (t *Turn) Pause() *Turn {
	if t == nil || t.queue == nil {
		return nil
	}
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.state != held {
		return nil
	}
	q.forgetLocked(t)
	i := slices.Index(q.held, t)
	q.held = slices.Delete(q.held, i, i+1)
	q.nextLocked()
	return t
}

// Resume waits for the slot that Pause released. Resumed work has priority over new work.
func (t *Turn) Resume() {
	if t != nil {
		t.begin(true)
	}
}

// GiveWay yields to waiters after the holder's time slice. The holder calls it between two parts of
// its work.
func (t *Turn) GiveWay() {
	if t == nil || t.queue == nil {
		return
	}
	q := t.queue
	if q.waiting.Load() == 0 && !q.turns.busy() || q.turns.clock()-time.Duration(t.since.Load()) < slice {
		return
	}
	if q.waiting.Load() == 0 {
		t.settle()
		return
	}
	t.End()
	t.begin(false)
}
