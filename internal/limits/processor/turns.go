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
	// slice is how long a turn lasts before it gives way, and how seldom the network is
	// looked at: what a request waits that needs no turn.
	slice = 200 * time.Microsecond
	// patience is how long nobody may get a turn while somebody waits. Then those that
	// have one are not waited for any longer.
	patience = 10 * time.Millisecond
)

// Kind is what a turn is for.
type Kind int

// Kinds of turns. Each has its own queue.
const (
	// Bulk is the making and sending of much: large lists.
	Bulk Kind = iota
	// Change is what a request that changes something computes.
	Change
	kinds
)

// Turns hands out turns to users one after the other, and to each in the order of asking. A
// nil *Turns gives everyone one at once. It is safe for concurrent use.
type Turns struct {
	config     Config
	began      time.Time // of the clock that the times here are by
	processors atomic.Int64
	held       atomic.Int64 // turns of all kinds
	netPoller  netPoller
	queues     [kinds]queue
}

// Config says what Turns are of.
type Config struct {
	// Processors returns how many there are; nil: as many as Go uses.
	Processors func() int
	// PerProcessor is how many turns of a kind there are for each of them. 0:
	// DefaultPerProcessor.
	PerProcessor int
	// OnCrowd is told when changes begin to wait for turns, and, some time after, that none
	// does; nil: nobody is. What they wait for may be a disk, and a goroutine in a system
	// call keeps its processor for milliseconds where Go has no other.
	OnCrowd func(waiting bool)
}

// New returns turns, which nobody has.
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

// count counts the processors anew: Go follows the limits of a container.
func (s *Turns) count() { s.processors.Store(int64(s.config.Processors())) }

func (s *Turns) clock() time.Duration { return time.Since(s.began) }

// busy reports whether turns may keep every processor from looking at the network.
func (s *Turns) busy() bool { return s.held.Load() >= s.processors.Load() }

// Close ends the use of the network's poller. Nobody may have or get a turn afterwards.
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

	mu       sync.Mutex // guards what follows, and the state of turns
	held     []*Turn
	resuming line // these wait to go on with what they have begun, and come first
	starting line
	given    uint64 // how many there were
	watched  bool   // there will be a call of look
	seen     uint64 // given, at the last call of look
}

// limit is how many turns there are.
func (q *queue) limit() int {
	return q.turns.config.PerProcessor * int(q.turns.processors.Load())
}

// state is what a turn is in.
type state int

const (
	idle state = iota
	waiting
	held
)

// Turn is what one request, or one connection, has of the processors. The zero value has
// none. All methods may be called of nil, and concurrently; but only one goroutine at a
// time may wait for a turn.
type Turn struct {
	queue *queue       // nil: never began
	user  string       // whose it is
	since atomic.Int64 // when it was last given, by the clock of Turns
	// Guarded by queue.mu.
	state state
	come  chan struct{} // made when it is first waited for
}

// Begin waits until it is the turn's turn. It does nothing if that has come already. A turn
// stays of the kind, and of the user, that it was first begun for. Any text that tells those
// apart who are to have the same share is a user.
func (s *Turns) Begin(t *Turn, kind Kind, user string) {
	if s == nil || t == nil {
		return
	}
	if t.queue == nil {
		t.queue, t.user = &s.queues[kind], user
	}
	t.begin(false)
}

// begin waits for a turn. resumes says that it goes on with what has been begun.
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

// crowd tells of waiting.
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

// nextLocked gives turns that are free to those that wait.
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

// look sees to it that turns go on: those of turns that are not given back in time are
// given to others.
func (q *queue) look() {
	q.turns.count()
	if !q.lookOn() {
		q.crowd(false)
	}
}

// lookOn is look while somebody waits.
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

// forgetLocked ends a turn, but for its place among those that are held.
func (q *queue) forgetLocked(t *Turn) {
	t.state = idle
	q.turns.held.Add(-1)
}

// End gives the turn back. It does nothing if there is none to give back.
func (t *Turn) End() { t.Pause() }

// Pause gives the turn back while something is waited for, and returns it; nil if there was
// none:
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

// Resume waits for the turn that was given back by Pause. Those that resume come before
// those that begin: what was begun is to be done.
func (t *Turn) Resume() {
	if t != nil {
		t.begin(true)
	}
}

// GiveWay lets others go first, if some wait and the turn has lasted for a while. It is for
// the holder, between two pieces of its work.
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
