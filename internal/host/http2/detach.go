package http2

import "sync"

// runQueue contains the streams of a connection whose detached functions must be called. One goroutine
// calls the functions in turn and then writes the data of all of them at once, because one event typically
// resumes many watches.
type runQueue struct {
	mu      sync.Mutex
	streams []*stream
	running bool // a goroutine runs the queue
}

// detachedState is guarded by runQueue.mu.
type detachedState uint8

const (
	notDetached detachedState = iota // not detached, or finished
	parked                           // waits to be resumed
	queued
	running
	runningResumed // resumed while running; it will run again
)

// Detach continues the response after the handler has returned. do is called after the return and after each
// Resume, until it returns true. Detach reduces the memory use of long-lived responses: between calls of do, a
// stream has no goroutine, and its request and response header are released. do may write and flush, but the
// handler must call WriteHeader. The first call of do has its own goroutine. Later calls share a goroutine with
// other streams of the connection, so do must call HandOff before it blocks on anything but the client. The
// handler must call Detach before it returns.
func (r *response) Detach(do func() (done bool)) { r.stream.detached = do }

// Resume schedules a call of the detached function. If the function is running, it is called once more
// afterwards. Resume does not block and is safe for concurrent use. The stream is also resumed when it ends.
func (r *response) Resume() { r.stream.resume() }

// HandOff sends the pending data of the streams that share the current goroutine, and moves the other streams
// to another goroutine. Only a running detached function may call it.
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

// detach runs the detached function for the first time.
func (s *stream) detach() {
	q := &s.conn.runQueue
	q.mu.Lock()
	s.state = running
	q.mu.Unlock()
	go s.runDetached() // returns when the detached function returns
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

// enqueue appends a stream to the run queue and starts runStreams if it is not running. runQueue.mu
// must be held.
func (c *conn) enqueue(s *stream) {
	s.state = queued
	c.runQueue.streams = append(c.runQueue.streams, s)
	if !c.runQueue.running {
		c.runQueue.running = true
		go c.runStreams() // returns when the queue is empty
	}
}

// next removes the next stream from the queue and returns it. It returns nil if the queue is empty.
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

// runStreams runs the queued streams of a connection, and then writes their data.
func (c *conn) runStreams() {
	for {
		s := c.runQueue.next()
		if s == nil {
			break
		}
		if handedOff := s.runDetached(); handedOff {
			return // another goroutine continues
		}
	}
	c.mu.Lock()
	c.flush()
	c.mu.Unlock()
}

// handOff starts another goroutine for the rest of the queue, because the stream may block the current
// goroutine. Only the goroutine that runs the stream may call it.
func (s *stream) handOff() {
	if !s.shared {
		return
	}
	s.shared = false
	q := &s.conn.runQueue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running = len(q.streams) > 0; q.running {
		go s.conn.runStreams() // ends when the queue is empty
	}
}

// runDetached calls the detached function. handedOff is true if the current goroutine no longer runs the queue.
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

// afterRun ends the response if done is true. Otherwise, it parks the stream, or enqueues it if it was resumed.
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
