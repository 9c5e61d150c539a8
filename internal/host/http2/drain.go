package http2

import (
	"time"

	h2 "golang.org/x/net/http2"
)

// drain is the end of a stream whose response is complete, while its client is
// still sending the request's body: what comes is dropped, and the stream ends
// with the body, without a reset.
//
// A reset at once is what RFC 9113, 8.1 allows and net/http does, but several
// clients drop a response when the reset arrives before they have read it (curl up
// to 7.88), or whenever it keeps them from sending all of the body (Java's). So
// the reset comes only when the body does not end within limits; until then, the
// client has had time to read the response.
type drain struct {
	left int64 // bytes that the client may still send
}

// startDrain begins it. conn.mu is held.
func (s *stream) startDrain() {
	b := &s.body
	s.drain = &drain{left: drainBytes - int64(len(b.buf)-b.off)}
	s.cancel(nil)
	stop(s.writeTimer)
	s.writeTimer = nil
	b.fail(errStreamDone)
	b.discard()
	timeout := drainTimeout
	if b.declared >= 0 && b.declared-b.received > s.drain.left {
		s.drain.left = 0
		timeout = lingerTimeout
	}
	s.resetAfter(timeout)
}

// resetAfter has the stream reset unless the body ends before. conn.mu is held.
func (s *stream) resetAfter(d time.Duration) {
	s.readTimer = s.setTimer(s.readTimer, time.Now().Add(d), func() {
		s.reset(h2.ErrCodeNo, errStreamDone)
		s.conn.flushAsync()
	})
}

// drained drops n bytes of the body, and lets the client send as many more while
// there is something left of the limit. conn.mu is held.
func (s *stream) drained(n int) {
	s.conn.in.give(n)
	before := s.drain.left
	s.drain.left -= int64(n)
	switch {
	case s.drain.left > 0:
		s.in.give(n)
	case before > 0:
		s.resetAfter(lingerTimeout)
	}
}
