package http2

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"

	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// stream is one request and its response. Its handler runs as a job.
type stream struct {
	conn     *conn
	id       uint32
	request  *http.Request // nil once the handler has returned
	handler  http.Handler  // the server's handler, or one that rejects the request
	detached func() bool   // the detached function, if any
	cancel   context.CancelCauseFunc
	body     body
	response response
	shared   bool // the detached function runs on the goroutine of the queue, which writes afterwards
	state    detachedState

	// Guarded by the connection's lock.
	err         error     // why the stream is over; nil while it is in the connection's map
	wake        sync.Cond // for the handler: bytes came, the window is wider, the stream is over
	out         outflow
	in          inflow
	waits       bool   // its handler waits, for something of the connection
	remoteEnded bool   // the client has sent all
	drain       *drain // set once the response is complete and remoteEnded is false
	readTimer   *time.Timer
	writeTimer  *time.Timer
}

// newStream creates the stream of a new request. c.mu must be held.
func (c *conn) newStream(id uint32, ended bool, r *requestHead) *stream {
	s := &stream{conn: c, id: id, remoteEnded: ended}
	s.wake.L = &c.mu
	s.out = outflow(c.peerWindow)
	s.in.avail = c.settings.window
	s.body = body{stream: s, empty: ended, declared: r.length, needsContinue: r.expectsContinue}
	s.response = response{stream: s, header: make(http.Header), declared: -1, head: r.request.Method == http.MethodHead}
	switch {
	case r.refusal != nil:
		s.handler = r.refusal
	case c.hs.Handler == nil || r.request.RequestURI == "*":
		s.handler = c.general
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
		s.armRead(now.Add(d))
	}
	if d := c.settings.write; d > 0 {
		s.armWrite(now.Add(d))
	}
	return s
}

// close ends the stream, once, and the context of its handler. conn.mu is held.
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
	if s.waits {
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

// reset ends the stream by our will. conn.mu is held.
func (s *stream) reset(code h2.ErrCode, err error) {
	if s.err == nil {
		_ = s.conn.frames.WriteRSTStream(s.id, code)
		s.close(err)
	}
}

// run runs the handler.
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

// handlerReturned runs the detached function of the handler, or ends the response.
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

// panicked breaks the stream off for a handler that has not returned.
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

// partKind is the kind of event that follows a part of a response.
type partKind int

const (
	heldPart    partKind = iota // more data: the part is written with it, or with data of other streams
	flushedPart                 // unknown: the part is written immediately
	lastPart                    // the end
)

// A responsePart is something to send: a header if fields is set, then data, and the end
// of the stream if it is the last, after trailers if there are any.
type responsePart struct {
	fields        []hpack.HeaderField
	informational bool // fields have an informational status
	data          [2][]byte
	kind          partKind
	trailers      []hpack.HeaderField
}

// send appends a part and, unless it is held, sees to it that it is written. It waits while the
// client's windows are closed or too much waits already.
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
		s.body.needsContinue = s.body.needsContinue && p.informational // it is too late for 100 Continue
	}
	for i, data := range p.data {
		if err := s.sendData(data, endByData && (i > 0 || len(p.data[1]) == 0)); err != nil {
			return err
		}
	}
	switch {
	case p.kind == heldPart:
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

// flush writes appended data. conn.mu must be held; it is released while blocking.
func (s *stream) flush() {
	if !s.shared {
		s.conn.flushBatched()
	}
}

// sendData appends DATA frames. conn.mu is held, but not while it waits.
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
		case n <= 0 && c.flush(): // the lock was released: look again
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

// finish ends a stream with a complete response when the client has sent the complete request.
// conn.mu must be held.
func (s *stream) finish() {
	if s.remoteEnded {
		s.close(errStreamDone)
		return
	}
	s.startDrain()
}

// setReadDeadline has reads of the body fail from then on; the zero time is
// never.
func (s *stream) setReadDeadline(at time.Time) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.armRead(at)
}

func (s *stream) armRead(at time.Time) {
	if s.body.empty || s.drain != nil {
		return
	}
	s.readTimer = s.setTimer(s.readTimer, at, func() { s.body.fail(deadlineError("reading the request")) })
}

// setWriteDeadline has the stream reset then.
func (s *stream) setWriteDeadline(at time.Time) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.armWrite(at)
}

func (s *stream) armWrite(at time.Time) {
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

// setTimer has do called with the lock at some time, or at once if that has
// passed. conn.mu is held.
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
