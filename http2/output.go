package http2

import (
	"bytes"
	"runtime"
	"sync"

	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// enough is how many bytes wait at most, but for one more frame: who has
	// others waits until they are written.
	enough = 64 << 10
	// dataFrame is the most that one DATA frame carries, so that streams take
	// turns.
	dataFrame = 16 << 10
	chunkSize = enough + dataFrame + 4<<10
	// turns is how often a handler writes what others have left meanwhile,
	// before it goes on with its own affairs.
	turns = 8
)

// chunk is memory for bytes on their way.
type chunk struct{ b []byte }

// output is the sending side of a connection. Frames are appended under the
// connection's lock. Who finds nobody writing writes, everything that has been
// appended up to then in one go and again until nothing is left, without the
// lock; everybody else leaves their frames and goes on.
type output struct {
	conn     *conn
	pending  *chunk     // nil when nothing waits
	replies  int        // bytes of pending that only answer the client
	writing  bool       // somebody is
	progress sync.Cond  // something was written, or the connection's window is wider
	frames   *h2.Framer // appends to pending

	maxFrame int // that the client takes
	encoder  *hpack.Encoder
	block    bytes.Buffer // what encoder has made of one header
}

func (o *output) init(c *conn) {
	o.conn = c
	o.progress.L = &c.mu
	o.frames = h2.NewFramer(o, nil)
	o.maxFrame = dataFrame
	o.encoder = hpack.NewEncoder(&o.block)
	o.encoder.SetMaxDynamicTableSizeLimit(c.settings.encodeTable)
}

// Write appends a frame. The connection's lock is held.
func (o *output) Write(p []byte) (int, error) {
	if o.pending == nil {
		o.pending = o.conn.srv.chunks.Get().(*chunk)
	}
	o.pending.b = append(o.pending.b, p...)
	return len(p), nil
}

// full tells appenders to wait.
func (o *output) full() bool { return o.pending != nil && len(o.pending.b) >= enough }

// waitRoom waits while too much waits to be written. c.mu is held, but not while
// it waits.
func (c *conn) waitRoom() {
	for c.full() {
		if !c.flush() {
			c.progress.Wait()
		}
	}
}

// appendData appends a DATA frame.
func (o *output) appendData(id uint32, p []byte, end bool) {
	var flags h2.Flags
	if end {
		flags = h2.FlagDataEndStream
	}
	n := len(p)
	head := [9]byte{byte(n >> 16), byte(n >> 8), byte(n), byte(h2.FrameData), byte(flags),
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
	first := block[:min(len(block), o.maxFrame)]
	block = block[len(first):]
	_ = o.frames.WriteHeaders(h2.HeadersFrameParam{
		StreamID: id, BlockFragment: first, EndStream: end, EndHeaders: len(block) == 0,
	})
	for len(block) > 0 {
		next := block[:min(len(block), o.maxFrame)]
		block = block[len(next):]
		_ = o.frames.WriteContinuation(id, len(block) == 0, next)
	}
	if o.block.Cap() > enough {
		o.block = bytes.Buffer{}
	}
}

// reply counts n bytes that answer the client's own frames; false when it lets
// them pile up.
func (o *output) reply(n int) bool {
	o.replies += n
	return o.replies <= maxReplies
}

// flush writes what waits, unless somebody is at it. c.mu is held, but not while
// writing: true tells that it was let go of.
func (c *conn) flush() bool {
	if c.writing || c.pending == nil {
		return false
	}
	c.writing = true
	c.writeFrom = c.clock()
	c.write()
	return true
}

// flushSoon is flush after everybody else that could run has: what they are about
// to say goes out along with it, in particular an event that many streams hear
// of at once. A stream that is alone does not wait: while processors are busy with
// other things, its turn would come late.
func (c *conn) flushSoon() {
	if c.writing || c.pending == nil {
		return
	}
	c.writing = true
	c.writeFrom = c.clock()
	if c.handlers > 1 {
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	c.write()
}

// flushElsewhere is flush for those who must not wait for the client, such as
// the goroutine that reads.
func (c *conn) flushElsewhere() {
	if c.writing || c.pending == nil {
		return
	}
	c.writing = true
	c.writeFrom = c.clock()
	c.srv.workers.start((*flusher)(c))
}

// flusher is a connection that somebody else writes for.
type flusher conn

func (f *flusher) run() {
	c := (*conn)(f)
	c.mu.Lock()
	c.write()
	c.mu.Unlock()
}

// write writes until nothing waits. c.writing has been set, and c.mu is held.
func (c *conn) write() {
	for turn := 0; c.pending != nil; turn++ {
		if turn == turns {
			c.srv.workers.start((*flusher)(c))
			return
		}
		out := c.pending
		c.pending, c.replies = nil, 0
		c.progress.Broadcast()
		c.mu.Unlock()
		_, err := c.net.Write(out.b)
		if err != nil {
			_ = c.net.Close() // the goroutine that reads does the rest
		}
		c.srv.free(out)
		c.mu.Lock()
		c.writeFrom = c.clock()
		if err != nil {
			c.closeStreams(errConnClosed)
			c.pending = nil
		}
	}
	c.writing = false
	c.progress.Broadcast()
}

// free gives memory back for others to use.
func (srv *server) free(k *chunk) {
	if cap(k.b) > 2*chunkSize {
		return
	}
	k.b = k.b[:0]
	srv.chunks.Put(k)
}
