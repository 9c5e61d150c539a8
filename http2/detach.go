package http2

import "sync"

// turns are what handlers of a connection have detached, where that goes on: one goroutine
// gives a turn to each stream that wants one, and writes after all of them. One event
// wakes many watches at once; none of them has a goroutine until then.
type turns struct {
	mu    sync.Mutex
	ready []*stream
	// given: there is a goroutine that gives turns to those in ready.
	given bool
}

// turnState is guarded by turns.mu.
type turnState uint8

const (
	turnless     turnState = iota // nothing is detached, or it is over
	turnWaits                     // for resume
	turnReady                     // in turns.ready
	turnTaken                     // running
	turnTakenTwo                  // running, and resumed meanwhile
)

// Detach has do called once the handler has returned; the response goes on until do returns
// true, too. Until then do is called again after each call of Resume. It is
// for handlers that wait for long and need little meanwhile: they take no goroutine, and
// the request and the header of the response are given up. do may write and
// flush, but the header must have been written before. The first call of do has a goroutine of its own;
// later ones share it with other streams of the connection, so that do has to call
// Leave before it waits for anything but the client.
func (r *response) Detach(do func() (done bool)) { r.stream.detached = do }

// Resume has what is detached be called, again if it is running. It does not wait, and is safe for
// concurrent use. The end of the request's context does that, too.
func (r *response) Resume() { r.stream.resume() }

// Leave lets other streams go on, and sends what they have written. It is for what is detached, while
// it runs.
func (r *response) Leave() {
	s := r.stream
	if !s.shared {
		return
	}
	s.conn.mu.Lock()
	s.conn.flush()
	s.conn.mu.Unlock()
	s.leave()
}

// detach gives the first turn.
func (s *stream) detach() {
	t := &s.conn.turns
	t.mu.Lock()
	s.turn = turnTaken
	t.mu.Unlock()
	go s.takeTurn() // ends when do has nothing to do
}

func (s *stream) resume() {
	t := &s.conn.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	switch s.turn {
	case turnWaits:
		s.conn.giveTurn(s)
	case turnTaken:
		s.turn = turnTakenTwo
	}
}

// giveTurn has a stream get a turn. turns.mu is held.
func (c *conn) giveTurn(s *stream) {
	s.turn = turnReady
	c.turns.ready = append(c.turns.ready, s)
	if !c.turns.given {
		c.turns.given = true
		c.srv.workers.start((*turnGiver)(c))
	}
}

// turnGiver is the job of giving turns to streams.
type turnGiver conn

func (g *turnGiver) run() {
	c := (*conn)(g)
	for {
		s := c.turns.next()
		if s == nil {
			break
		}
		if left := s.takeTurn(); left {
			return // another goroutine goes on
		}
	}
	c.mu.Lock()
	c.flush()
	c.mu.Unlock()
}

// next returns the stream whose turn it is, nil if there is none.
func (t *turns) next() *stream {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.ready) == 0 {
		t.given, t.ready = false, nil
		return nil
	}
	s := t.ready[0]
	t.ready[0] = nil
	t.ready = t.ready[1:]
	s.turn, s.shared = turnTaken, true
	return s
}

// leave has another goroutine give the turns that this one would, before a stream makes it
// wait. It is called on the goroutine of the turn.
func (s *stream) leave() {
	if !s.shared {
		return
	}
	s.shared = false
	t := &s.conn.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.given = len(t.ready) > 0; t.given {
		s.conn.srv.workers.start((*turnGiver)(s.conn))
	}
}

// takeTurn calls what the handler has detached. left reports that others do not wait for
// this goroutine.
func (s *stream) takeTurn() (left bool) {
	returned, done := false, true
	defer func() {
		if !returned {
			s.panicked(recover())
		}
		left = !s.shared
		s.shared = false
		s.endTurn(done)
	}()
	if done = s.detached(); done {
		s.response.finish()
	}
	returned = true
	return false
}

// endTurn ends the response, or waits for Resume.
func (s *stream) endTurn(done bool) {
	t := &s.conn.turns
	t.mu.Lock()
	again := s.turn == turnTakenTwo
	switch {
	case done:
		s.turn = turnless
	case again:
		s.conn.giveTurn(s)
	default:
		s.turn = turnWaits
	}
	t.mu.Unlock()
	if done {
		s.detached = nil
		s.handlerReturned()
	}
}
