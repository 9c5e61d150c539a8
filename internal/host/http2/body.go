package http2

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/net/http2/hpack"
)

var errBodyClosed = errors.New("http2: the request body is closed")

// firstBuffer is the initial buffer size for a request body of unknown length, in bytes. The buffer
// grows with unread data, up to the stream's flow-control window.
const firstBuffer = 4 << 10

// body is the body of a request. The reading goroutine of the connection appends received data, and the
// handler reads it. Both hold conn.mu.
type body struct {
	stream        *stream
	empty         bool   // the request has no body
	buf           []byte // received data; the unread part starts at off
	off           int
	err           error // returned by reads once buf is read; nil while more data may arrive
	closed        bool
	needsContinue bool  // the client waits for 100 Continue
	declared      int64 // Content-Length, or -1
	received      int64 // number of bytes received so far

	trailer http.Header // received trailers; nil after publishTrailer
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	c := b.stream.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.needsContinue && b.stream.err == nil && !b.closed {
		b.needsContinue = false
		c.appendHeader(b.stream.id, []hpack.HeaderField{{Name: ":status", Value: "100"}}, false)
		c.flush()
	}
	for len(p) > 0 {
		switch {
		case b.closed:
			return 0, errBodyClosed
		case b.off < len(b.buf):
			n := copy(p, b.buf[b.off:])
			b.off += n
			b.refill(n)
			c.flush()
			return n, nil
		case b.err == io.EOF:
			b.buf, b.off = nil, 0 // free the memory, because the handler may run much longer
			b.publishTrailer()
			return 0, io.EOF
		case b.err != nil:
			return 0, b.err
		}
		b.buf, b.off = b.buf[:0], 0
		if !c.flush() { // the client might be waiting for the pending data
			b.stream.wake.Wait()
		}
	}
	return 0, nil
}

// Close implements io.Closer and discards the remaining body.
func (b *body) Close() error {
	c := b.stream.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	b.closed = true
	b.discard()
	b.stream.wake.Broadcast()
	return nil
}

// publishTrailer copies the announced trailers to Request.Trailer.
func (b *body) publishTrailer() {
	if b.stream.request == nil {
		return // the handler has returned
	}
	announced := b.stream.request.Trailer
	for key, values := range b.trailer {
		if _, ok := announced[key]; ok {
			announced[key] = values
		}
	}
	b.trailer = nil
}

// add appends received bytes. conn.mu must be held for this method and all methods below.
func (b *body) add(p []byte) {
	b.received += int64(len(p))
	if b.closed || b.err != nil {
		b.stream.conn.in.release(len(p)) // the window of the stream stays reduced, because no handler reads the data
		return
	}
	if b.buf == nil {
		size := int64(firstBuffer)
		if b.declared >= 0 {
			size = min(size, b.declared)
		}
		b.buf = make([]byte, 0, max(int(size), len(p)))
	}
	if b.off > 0 && len(b.buf)+len(p) > cap(b.buf) {
		b.buf = b.buf[:copy(b.buf, b.buf[b.off:])]
		b.off = 0
	}
	b.buf = append(b.buf, p...)
	b.stream.wake.Broadcast()
}

// exceeded reports whether n more bytes would exceed the declared length.
func (b *body) exceeded(n int) bool {
	return b.declared >= 0 && b.received+int64(n) > b.declared
}

// end makes reads return io.EOF after the received data, or an error if the length of the data differs from
// the declared length.
func (b *body) end() {
	if b.declared >= 0 && b.received != b.declared {
		b.fail(fmt.Errorf("http2: the request declared a Content-Length of %d, but has %d bytes: %w",
			b.declared, b.received, io.ErrUnexpectedEOF))
		return
	}
	b.fail(io.EOF)
}

// fail makes reads return err after the received data.
func (b *body) fail(err error) {
	if b.err == nil {
		b.err = err
		b.stream.wake.Broadcast()
	}
}

// drop ends the body after its stream has ended. It returns the unread bytes to the connection's window.
func (b *body) drop() {
	if b.empty {
		return
	}
	b.fail(b.stream.err)
	b.stream.conn.in.release(len(b.buf) - b.off)
	b.stream.conn.sendWindowUpdate()
}

// discard drops the received data that was not read, and permits the client to send as many bytes again.
func (b *body) discard() {
	b.refill(len(b.buf) - b.off)
	b.buf, b.off = nil, 0
}

// refill permits the client to send up to n more bytes.
func (b *body) refill(n int) {
	s := b.stream
	if s.err != nil {
		return // drop has already released the bytes
	}
	s.conn.in.release(n)
	s.conn.sendWindowUpdate()
	if !s.remoteEnded {
		s.in.release(n)
		s.sendWindowUpdate()
	}
}

// sendWindowUpdate sends WINDOW_UPDATE for the connection if enough data has been read. c.mu must be
// held.
func (c *conn) sendWindowUpdate() {
	if n := c.in.refill(); n > 0 {
		_ = c.frames.WriteWindowUpdate(0, n)
	}
}

// sendWindowUpdate sends WINDOW_UPDATE for the stream if enough data has been read. conn.mu must be
// held.
func (s *stream) sendWindowUpdate() {
	if n := s.in.refill(); n > 0 {
		_ = s.conn.frames.WriteWindowUpdate(s.id, n)
	}
}
