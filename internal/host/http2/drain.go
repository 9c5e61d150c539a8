package http2

import (
	"time"

	h2 "golang.org/x/net/http2"
)

// drain handles a stream whose response is complete while the client is still sending the request body.
// Received data is dropped, and the stream ends without a reset at the end of the body. RFC 9113, section 8.1
// permits an immediate reset, as in net/http, but some clients drop a response if the reset arrives before they
// have read the response (curl up to 7.88), or if the reset interrupts the body (Java's client). The stream is
// therefore reset only if the body exceeds a limit or takes too long, after a delay in which the client can
// read the response.
type drain struct {
	left int64 // bytes that the client may still send
}

// startDrain starts dropping the rest of the request body. conn.mu must be held.
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

// resetAfter resets the stream after d, unless the body ends earlier. conn.mu must be held.
func (s *stream) resetAfter(d time.Duration) {
	s.readTimer = s.setTimer(s.readTimer, time.Now().Add(d), func() {
		s.reset(h2.ErrCodeNo, errStreamDone)
		s.conn.flushAsync()
	})
}

// drainData drops n received bytes of the body. While the limit permits, it returns the bytes to the window of
// the stream. conn.mu must be held.
func (s *stream) drainData(n int) {
	s.conn.in.release(n)
	before := s.drain.left
	s.drain.left -= int64(n)
	switch {
	case s.drain.left > 0:
		s.in.release(n)
	case before > 0:
		s.resetAfter(lingerTimeout)
	}
}
