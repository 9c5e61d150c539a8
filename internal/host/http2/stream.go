package http2

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// stream is one request and its response. Its handler runs on its own goroutine.
type stream struct {
	conn     *conn
	id       uint32
	request  *http.Request // nil once the handler has returned
	handler  http.Handler  // the server's handler, or a handler that rejects the request
	detached func() bool   // the function of Detach; nil if the response is not detached
	cancel   context.CancelCauseFunc
	body     body
	response response
	shared   bool // the detached function runs on the goroutine of the run queue, which writes the data later
	state    detachedState

	// Guarded by the connection's lock.
	err         error     // the error with which the stream has ended; nil while the stream is open
	wake        sync.Cond // signaled when data arrives, the send window grows, or the stream ends
	out         outflow
	in          inflow
	waiting     bool   // the handler waits for a condition of the connection
	remoteEnded bool   // the client has sent END_STREAM
	drain       *drain // set if the response is complete but the client has not sent END_STREAM
	readTimer   *time.Timer
	writeTimer  *time.Timer
}

// newStream creates the stream of a new request. ended is true if the request has no body. c.mu must be held.
func (c *conn) newStream(id uint32, ended bool, r *requestHead) *stream {
	s := &stream{conn: c, id: id, remoteEnded: ended}
	s.wake.L = &c.mu
	s.out = outflow(c.peerWindow)
	s.in.avail = c.settings.window
	s.body = body{stream: s, empty: ended, declared: r.length, needsContinue: r.expectsContinue}
	s.response = response{stream: s, header: make(http.Header), declared: -1, head: r.request.Method == http.MethodHead}
	switch {
	case r.rejection != nil:
		s.handler = r.rejection
	case c.hs.Handler == nil || r.request.RequestURI == "*":
		s.handler = c.fallback
	default:
		s.handler = c.hs.Handler
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	s.cancel = cancel
	s.request = r.request.WithContext(ctx)
	if !ended {
		s.request.Body = &s.body
	}
	c.streams[id] = s
	now := time.Now()
	if d := c.settings.read; d > 0 {
		s.setReadTimer(now.Add(d))
	}
	if d := c.settings.write; d > 0 {
		s.setWriteTimer(now.Add(d))
	}
	return s
}

// close ends the stream with err, and cancels the context of its request. Later calls have no effect. conn.mu
// must be held.
func (s *stream) close(err error) {
	if s.err != nil {
		return
	}
	c := s.conn
	s.err = err
	delete(c.streams, s.id)
	s.body.drop()
	s.cancel(nil)
	stop(s.readTimer)
	stop(s.writeTimer)
	s.wake.Broadcast()
	s.resume()
	if s.waiting {
		c.progress.Broadcast()
		c.room.Broadcast()
	}
	if len(c.streams) == 0 {
		c.idleSince = c.clock()
		c.closeIfDone()
	}
}

func stop(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}

// reset sends RST_STREAM and closes the stream with err. conn.mu must be held.
func (s *stream) reset(code h2.ErrCode, err error) {
	if s.err == nil {
		s.conn.writeReset(s.id, code)
		s.close(err)
	}
}

// writeReset appends RST_STREAM, and records the stream, because its trailers may already be on their way. c.mu
// must be held.
func (c *conn) writeReset(id uint32, code h2.ErrCode) {
	_ = c.frames.WriteRSTStream(id, code)
	if len(c.resets) == maxResets {
		c.resets = slices.Delete(c.resets, 0, 1)
	}
	c.resets = append(c.resets, id)
}

// run runs the handler. After the handler has returned, it completes or detaches the response.
func (s *stream) run() {
	returned := false
	defer func() {
		if !returned {
			s.panicked(recover())
		}
		if form := s.request.MultipartForm; form != nil {
			_ = form.RemoveAll()
		}
		s.handlerReturned()
	}()
	s.handler.ServeHTTP(&s.response, s.request)
	if s.detached == nil {
		s.response.finish()
	}
	returned = true
}

// handlerReturned starts the detached function if the handler has called Detach; otherwise it frees
// the handler's slot.
func (s *stream) handlerReturned() {
	s.response.release()
	c := s.conn
	c.mu.Lock()
	s.request = nil
	c.mu.Unlock()
	if s.detached == nil {
		s.response.returned = true
		c.handlerDone()
		return
	}
	s.response.header = nil
	s.detach()
}

// panicked resets the stream of a handler that panicked or called runtime.Goexit. The reason is nil
// after Goexit.
func (s *stream) panicked(reason any) {
	c := s.conn
	s.detached = nil
	if reason != nil && reason != http.ErrAbortHandler {
		trace := make([]byte, 64<<10)
		trace = trace[:runtime.Stack(trace, false)]
		logTo(c.hs, "http2: panic serving %v: %v\n%s", c.remote, reason, trace)
	}
	c.mu.Lock()
	s.reset(h2.ErrCodeInternal, errStreamDone)
	c.flush()
	c.mu.Unlock()
}

// partKind determines when a part of a response is written.
type partKind int

const (
	deferredPart partKind = iota // written together with later data, or with data of other streams
	flushedPart                  // written immediately
	lastPart                     // written immediately, with the end of the stream
)

// responsePart consists of a header (if fields is not nil), data, and, for a lastPart, the trailers and the
// end of the stream.
type responsePart struct {
	fields        []hpack.HeaderField
	informational bool // fields contain an informational status (1xx)
	data          [2][]byte
	kind          partKind
	trailers      []hpack.HeaderField
}

// send appends a part of the response and, unless the part is deferred, writes it. It blocks while the client's
// windows are exhausted or maxPending is reached. It returns an error if the stream has ended.
func (s *stream) send(p *responsePart) error {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	left := len(p.data[0]) + len(p.data[1])
	endByData := p.kind == lastPart && len(p.trailers) == 0
	if p.fields != nil {
		if s.waitRoom(); s.err != nil {
			return s.err
		}
		c.appendHeader(s.id, p.fields, endByData && left == 0)
		s.body.needsContinue = s.body.needsContinue && p.informational // 100 Continue cannot follow a final status
	}
	for i, data := range p.data {
		if err := s.sendData(data, endByData && (i > 0 || len(p.data[1]) == 0)); err != nil {
			return err
		}
	}
	switch {
	case p.kind == deferredPart:
		return s.err
	case p.kind == flushedPart:
		s.flush()
		return s.err
	case len(p.trailers) > 0:
		c.appendHeader(s.id, p.trailers, true)
	case left == 0 && p.fields == nil:
		c.appendData(s.id, nil, true)
	}
	s.finish()
	s.flush()
	return nil
}

// flush writes the pending data, unless the goroutine of the run queue does so later. conn.mu must be held; it
// is released while blocking.
func (s *stream) flush() {
	if !s.shared {
		s.conn.flush()
	}
}

// sendData appends DATA frames, and blocks while the client's windows are exhausted. If end is true, the last
// frame ends the stream. conn.mu must be held; it is released while blocking.
func (s *stream) sendData(p []byte, end bool) error {
	c := s.conn
	for len(p) > 0 {
		if s.err != nil {
			return s.err
		}
		n := min(len(p), maxDataFrame, int(s.out), int(c.out))
		switch {
		case n > 0 && c.full():
			s.waitRoom()
		case n <= 0 && c.flush(): // the lock was released, so check again
		case n <= 0 && s.out <= 0:
			s.handOff()
			s.wake.Wait()
		case n <= 0:
			s.wait(&c.progress)
		default:
			s.out -= outflow(n)
			c.out -= outflow(n)
			c.appendData(s.id, p[:n], end && n == len(p))
			p = p[n:]
		}
	}
	return nil
}

// finish ends a stream whose response is complete. If the client has not sent the complete request yet, it
// starts to drop the rest of the body. conn.mu must be held.
func (s *stream) finish() {
	if s.remoteEnded {
		s.close(errStreamDone)
		return
	}
	s.startDrain()
}

// setReadDeadline makes reads of the body fail after the deadline. The zero time removes the deadline.
func (s *stream) setReadDeadline(at time.Time) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.setReadTimer(at)
}

func (s *stream) setReadTimer(at time.Time) {
	if s.body.empty || s.drain != nil {
		return
	}
	s.readTimer = s.setTimer(s.readTimer, at, func() { s.body.fail(deadlineError("reading the request")) })
}

// setWriteDeadline resets the stream at the deadline. The zero time removes the deadline.
func (s *stream) setWriteDeadline(at time.Time) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.setWriteTimer(at)
}

func (s *stream) setWriteTimer(at time.Time) {
	if s.drain != nil {
		return
	}
	s.writeTimer = s.setTimer(s.writeTimer, at, func() {
		s.reset(h2.ErrCodeInternal, deadlineError("writing the response"))
		s.conn.flushAsync()
	})
}

func deadlineError(doing string) error {
	return fmt.Errorf("http2: %s: %w", doing, os.ErrDeadlineExceeded)
}

// setTimer stops the timer old, and returns a timer that calls do at the given time, with conn.mu held. If the
// time has passed, setTimer calls do immediately and returns nil. It also returns nil if at is zero or the
// stream has ended. conn.mu must be held.
func (s *stream) setTimer(old *time.Timer, at time.Time, do func()) *time.Timer {
	stop(old)
	if at.IsZero() || s.err != nil {
		return nil
	}
	left := time.Until(at)
	if left <= 0 {
		do()
		return nil
	}
	var t *time.Timer
	t = time.AfterFunc(left, func() {
		s.conn.mu.Lock()
		defer s.conn.mu.Unlock()
		if t == s.readTimer || t == s.writeTimer { // the timer is still current
			do()
		}
	})
	return t
}
