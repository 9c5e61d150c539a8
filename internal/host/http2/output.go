package http2

import (
	"bytes"
	"net"
	"sync"

	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// maxPending is the number of pending bytes at which handlers block before they append more frames. The
	// last frame before that may exceed it.
	maxPending = 4 * tlsRecord
	// maxDataFrame is the maximum payload of a DATA frame, in bytes. A full frame and its header fill one
	// TLS record. Larger frames would delay the other streams of the connection.
	maxDataFrame    = tlsRecord - frameHead
	tlsRecord       = 16 << 10 // maximum plain text of a TLS record
	frameHead       = 9        // size of a frame header, in bytes
	writeBufferSize = maxPending + tlsRecord + 4<<10
	// maxWriteRounds is the number of writes that a handler performs for other streams before
	// another goroutine takes over.
	maxWriteRounds = 8
)

// writeBuffer contains frames to write.
type writeBuffer struct{ b []byte }

// output is the sending side of a connection. Goroutines append frames while they hold the connection's lock. A
// goroutine that must write its frames becomes the writer, unless there is already one. The writer writes
// without holding the lock, until no data is pending. Other goroutines return after they have appended frames.
type output struct {
	conn     *conn
	pending  *writeBuffer // nil without pending data
	replies  int          // pending bytes that are replies to control frames, such as PING
	writing  bool         // a goroutine is the writer
	progress sync.Cond    // signaled when the writer is done or the connection's window grows
	room     sync.Cond    // signaled, for one stream at a time, when there is room for more pending data
	frames   *h2.Framer   // appends to pending

	encoder *hpack.Encoder
	block   bytes.Buffer // the encoder's output for one header
}

func (o *output) init(c *conn) {
	o.conn = c
	o.progress.L, o.room.L = &c.mu, &c.mu
	o.frames = h2.NewFramer(o, nil)
	o.encoder = hpack.NewEncoder(&o.block)
	o.encoder.SetMaxDynamicTableSizeLimit(c.settings.encodeTable)
}

// Write appends to the pending data and never fails. The connection's lock must be held.
func (o *output) Write(p []byte) (int, error) {
	if o.pending == nil {
		o.pending = o.conn.srv.writeBuffers.Get().(*writeBuffer)
	}
	o.pending.b = append(o.pending.b, p...)
	return len(p), nil
}

// full reports whether streams must wait before they append more data.
func (o *output) full() bool { return o.pending != nil && len(o.pending.b) >= maxPending }

// waitRoom blocks while too much data is pending, or until the stream ends. Streams are woken one after the
// other while there is room, because waking all of them after each write would cost more than the write.
// conn.mu must be held; it is released while blocking.
func (s *stream) waitRoom() {
	c := s.conn
	for c.full() && s.err == nil {
		if !c.flush() {
			s.wait(&c.room)
		}
	}
	c.room.Signal()
}

// wait blocks until cond is signaled. stream.close also signals it. conn.mu must be held.
func (s *stream) wait(cond *sync.Cond) {
	s.waiting = true
	cond.Wait()
	s.waiting = false
}

// appendData appends a DATA frame. If end is true, the frame has the flag END_STREAM.
func (o *output) appendData(id uint32, p []byte, end bool) {
	var flags h2.Flags
	if end {
		flags = h2.FlagDataEndStream
	}
	n := len(p)
	head := [frameHead]byte{byte(n >> 16), byte(n >> 8), byte(n), byte(h2.FrameData), byte(flags),
		byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}
	_, _ = o.Write(head[:])
	_, _ = o.Write(p)
}

// appendHeader appends a HEADERS frame, and CONTINUATION frames if the block needs them.
func (o *output) appendHeader(id uint32, fields []hpack.HeaderField, end bool) {
	o.block.Reset()
	for _, f := range fields {
		_ = o.encoder.WriteField(f)
	}
	block := o.block.Bytes()
	first := block[:min(len(block), minFrame)]
	block = block[len(first):]
	_ = o.frames.WriteHeaders(h2.HeadersFrameParam{
		StreamID: id, BlockFragment: first, EndStream: end, EndHeaders: len(block) == 0,
	})
	for len(block) > 0 {
		next := block[:min(len(block), minFrame)]
		block = block[len(next):]
		_ = o.frames.WriteContinuation(id, len(block) == 0, next)
	}
	if o.block.Cap() > maxPending {
		o.block = bytes.Buffer{}
	}
}

// countReply adds n bytes to the pending replies to the client's control frames. It returns false if more than
// maxReplies bytes are pending, because the client does not read them.
func (o *output) countReply(n int) bool {
	o.replies += n
	return o.replies <= maxReplies
}

// flush writes pending data, unless another goroutine is already writing. It reports whether it wrote data.
// c.mu must be held; it is released during writes.
func (c *conn) flush() bool {
	if c.writing || c.pending == nil {
		return false
	}
	c.writing = true
	c.writeStarted = c.clock()
	c.write()
	return true
}

// flushAsync is like flush, but writes on another goroutine. It is for callers that must not block on the
// client, such as the reading goroutine.
func (c *conn) flushAsync() {
	if c.writing || c.pending == nil {
		return
	}
	c.writing = true
	c.writeStarted = c.clock()
	go c.writePending() // returns after the writes
}

// writePending writes the pending data of a connection. c.writing must be set.
func (c *conn) writePending() {
	c.mu.Lock()
	c.write()
	c.mu.Unlock()
}

// write writes until no data is pending, or lets another goroutine continue after maxWriteRounds writes.
// c.writing must be set and c.mu held.
func (c *conn) write() {
	for round := 0; c.pending != nil; round++ {
		if round == maxWriteRounds {
			go c.writePending() // returns after the writes
			return
		}
		out := c.pending
		c.pending, c.replies = nil, 0
		c.room.Signal()
		c.mu.Unlock()
		err := c.writeOut(out.b)
		if err != nil {
			_ = c.net.Close() // the reading goroutine then tears the connection down
		}
		c.srv.recycle(out)
		c.mu.Lock()
		c.writeStarted = c.clock()
		if err != nil {
			c.closeStreams(errConnClosed)
			c.pending = nil
		}
	}
	c.writing = false
	c.progress.Broadcast()
}

// corker is a connection that can buffer the next n bytes and write them with one system call, like
// TCP_CORK.
type corker interface{ Cork(n int) }

// corkerOf returns the connection below TLS if it is a corker, and nil otherwise.
func corkerOf(c net.Conn) corker {
	tls, ok := c.(interface{ NetConn() net.Conn })
	if !ok {
		return nil
	}
	below, _ := tls.NetConn().(corker)
	return below
}

// writeOut writes frames. Data of more than one TLS record is corked, because crypto/tls writes each
// record separately.
func (c *conn) writeOut(p []byte) error {
	if c.corker != nil && len(p) > tlsRecord {
		c.corker.Cork(len(p))
	}
	_, err := c.net.Write(p)
	return err
}

// recycle returns a buffer to the pool, unless it has grown too large.
func (srv *server) recycle(buf *writeBuffer) {
	if cap(buf.b) > 2*writeBufferSize {
		return
	}
	buf.b = buf.b[:0]
	srv.writeBuffers.Put(buf)
}
