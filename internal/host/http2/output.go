package http2

import (
	"bytes"
	"net"
	"runtime"
	"sync"

	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// maxPending is how many bytes wait to be written at most, but for one more
	// frame: handlers with more of them block.
	maxPending = 4 * tlsRecord
	// maxDataFrame is the most that one DATA frame carries, so that streams take
	// turns: with its head, it fills a record.
	maxDataFrame    = tlsRecord - frameHead
	tlsRecord       = 16 << 10 // the most that one carries
	frameHead       = 9
	writeBufferSize = maxPending + tlsRecord + 4<<10
	// maxWriteRounds is the number of writes that a handler performs for other streams before
	// another goroutine takes over.
	maxWriteRounds = 8
)

// writeBuffer contains frames to write.
type writeBuffer struct{ b []byte }

// output is the sending side of a connection. Frames are appended under the connection's lock. A
// goroutine that finds no writer after appending becomes the writer: without the lock, it writes
// all pending data until there is none. Others return after appending.
type output struct {
	conn     *conn
	pending  *writeBuffer // nil without pending data
	replies  int          // bytes of pending that only answer the client
	writing  bool         // there is a writer
	progress sync.Cond    // there is no writer, or the connection's window is wider
	room     sync.Cond    // for streams, one after the other: less waits to be written
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

// Write appends a frame. The connection's lock is held.
func (o *output) Write(p []byte) (int, error) {
	if o.pending == nil {
		o.pending = o.conn.srv.writeBuffers.Get().(*writeBuffer)
	}
	o.pending.b = append(o.pending.b, p...)
	return len(p), nil
}

// full reports whether appenders have to wait.
func (o *output) full() bool { return o.pending != nil && len(o.pending.b) >= maxPending }

// waitRoom blocks while too much data is pending, or until the stream ends. Streams are woken one
// after the other while there is space; waking all of them after each write would cost more than
// the write. conn.mu must be held; it is released while blocking.
func (s *stream) waitRoom() {
	c := s.conn
	for c.full() && s.err == nil {
		if !c.flush() {
			s.wait(&c.room)
		}
	}
	c.room.Signal()
}

// wait waits for something of the connection, or until the stream is over.
func (s *stream) wait(what *sync.Cond) {
	s.waits = true
	what.Wait()
	s.waits = false
}

// appendData appends a DATA frame.
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

// appendHeader appends HEADERS, and CONTINUATION as needed.
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

// countReply counts n bytes of replies to the client's frames. It returns false if they accumulate.
func (o *output) countReply(n int) bool {
	o.replies += n
	return o.replies <= maxReplies
}

// flush writes pending data, unless there is a writer. c.mu must be held; it is released during
// writes, which the result reports.
func (c *conn) flush() bool {
	if c.writing || c.pending == nil {
		return false
	}
	c.writing = true
	c.writeStarted = c.clock()
	c.write()
	return true
}

// flushBatched yields before flush, so that streams about to append share the write. A single
// stream does not yield: on busy processors it would resume late. Parked streams share a write
// through their queue.
func (c *conn) flushBatched() {
	if c.writing || c.pending == nil {
		return
	}
	c.writing = true
	c.writeStarted = c.clock()
	if c.handlers > 1 {
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	c.write()
}

// flushAsync is flush on another goroutine, for callers that must not wait for the
// client, such as the goroutine that reads.
func (c *conn) flushAsync() {
	if c.writing || c.pending == nil {
		return
	}
	c.writing = true
	c.writeStarted = c.clock()
	c.srv.workers.start((*flusher)(c))
}

// flusher is the job of being a connection's writer.
type flusher conn

func (f *flusher) run() {
	c := (*conn)(f)
	c.mu.Lock()
	c.write()
	c.mu.Unlock()
}

// write writes until no data is pending. c.writing must be set and c.mu held.
func (c *conn) write() {
	for round := 0; c.pending != nil; round++ {
		if round == maxWriteRounds {
			c.srv.workers.start((*flusher)(c))
			return
		}
		out := c.pending
		c.pending, c.replies = nil, 0
		c.room.Signal()
		c.mu.Unlock()
		err := c.writeOut(out.b)
		if err != nil {
			_ = c.net.Close() // the goroutine that reads does the rest
		}
		c.srv.free(out)
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

// gatherer is a connection that can buffer the next n bytes for a single write.
type gatherer interface{ Gather(n int) }

// gathererOf returns the gatherer below TLS, if there is one.
func gathererOf(c net.Conn) gatherer {
	tls, ok := c.(interface{ NetConn() net.Conn })
	if !ok {
		return nil
	}
	below, _ := tls.NetConn().(gatherer)
	return below
}

// writeOut writes frames; more than a TLS record in one write, if possible.
func (c *conn) writeOut(p []byte) error {
	if c.gatherer != nil && len(p) > tlsRecord {
		c.gatherer.Gather(len(p))
	}
	_, err := c.net.Write(p)
	return err
}

// free returns memory for reuse.
func (srv *server) free(k *writeBuffer) {
	if cap(k.b) > 2*writeBufferSize {
		return
	}
	k.b = k.b[:0]
	srv.writeBuffers.Put(k)
}
