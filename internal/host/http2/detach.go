package http2

import "sync"

// runQueue is the streams of a connection whose handlers have detached what they have left
// to do, where there is something to do: one goroutine runs each in turn, and writes after
// all of them. One event resumes many watches at once; none of them has a goroutine
// until then.
type runQueue struct {
	mu      sync.Mutex
	streams []*stream
	running bool // there is a goroutine that runs them
}

// detachedState is guarded by runQueue.mu.
type detachedState uint8

const (
	notDetached detachedState = iota // nothing is, or it is over
	parked                           // waits to be resumed
	queued
	running
	runningResumed // resumed while it runs: it runs again
)

// Detach has do called once the handler has returned; the response goes on until do returns
// true, too. Until then do is called again after each Resume. It is for handlers that wait
// for long and need little meanwhile: while they wait they take no goroutine, and the request
// and the header of the response are given up. do may write and flush, but the
// header must have been written before. The first call of do has a goroutine of its own;
// later ones share one with other streams of the connection, so that do has to call HandOff
// before it waits for anything but the client.
func (r *response) Detach(do func() (done bool)) { r.stream.detached = do }

// Resume has what is detached be called, once more if it is running. It does not wait, and
// is safe for concurrent use. The end of the request's context does that, too.
func (r *response) Resume() { r.stream.resume() }

// HandOff sends what streams have written that share this goroutine, and lets another one
// go on with the rest of them. It is for what is detached, while it runs.
func (r *response) HandOff() {
	s := r.stream
	if !s.shared {
		return
	}
	s.conn.mu.Lock()
	s.conn.flush()
	s.conn.mu.Unlock()
	s.handOff()
}

// detach runs what has been detached for the first time.
func (s *stream) detach() {
	q := &s.conn.runQueue
	q.mu.Lock()
	s.state = running
	q.mu.Unlock()
	go s.runDetached() // ends when do has nothing to do
}

func (s *stream) resume() {
	q := &s.conn.runQueue
	q.mu.Lock()
	defer q.mu.Unlock()
	switch s.state {
	case parked:
		s.conn.enqueue(s)
	case running:
		s.state = runningResumed
	}
}

// enqueue queues a stream to be run. runQueue.mu is held.
func (c *conn) enqueue(s *stream) {
	s.state = queued
	c.runQueue.streams = append(c.runQueue.streams, s)
	if !c.runQueue.running {
		c.runQueue.running = true
		c.srv.workers.start((*queueRunner)(c))
	}
}

// next returns the stream to be run next, nil if there is none.
func (q *runQueue) next() *stream {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.streams) == 0 {
		q.running, q.streams = false, nil
		return nil
	}
	s := q.streams[0]
	q.streams[0] = nil
	q.streams = q.streams[1:]
	s.state, s.shared = running, true
	return s
}

// queueRunner is the job of running the streams of a connection's queue.
type queueRunner conn

func (r *queueRunner) run() {
	c := (*conn)(r)
	for {
		s := c.runQueue.next()
		if s == nil {
			break
		}
		if handedOff := s.runDetached(); handedOff {
			return // another goroutine goes on
		}
	}
	c.mu.Lock()
	c.flush()
	c.mu.Unlock()
}

// handOff has another goroutine go on with the queue, before a stream makes this one wait. It
// is called on the goroutine that runs the stream.
func (s *stream) handOff() {
	if !s.shared {
		return
	}
	s.shared = false
	q := &s.conn.runQueue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running = len(q.streams) > 0; q.running {
		s.conn.srv.workers.start((*queueRunner)(s.conn))
	}
}

// runDetached calls what the handler has detached. handedOff reports that the queue does not
// wait for this goroutine.
func (s *stream) runDetached() (handedOff bool) {
	returned, done := false, true
	defer func() {
		if !returned {
			s.panicked(recover())
		}
		handedOff = !s.shared
		s.shared = false
		s.afterRun(done)
	}()
	if done = s.detached(); done {
		s.response.finish()
	}
	returned = true
	return false
}

// afterRun ends the response, or parks the stream.
func (s *stream) afterRun(done bool) {
	q := &s.conn.runQueue
	q.mu.Lock()
	again := s.state == runningResumed
	switch {
	case done:
		s.state = notDetached
	case again:
		s.conn.enqueue(s)
	default:
		s.state = parked
	}
	q.mu.Unlock()
	if done {
		s.detached = nil
		s.handlerReturned()
	}
}
