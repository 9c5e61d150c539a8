package http2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	h2 "golang.org/x/net/http2"
)

// Errors of a closed stream. Handlers receive them from Read, Write and Flush.
var (
	errConnClosed  = errors.New("http2: the connection is closed")
	errStreamReset = errors.New("http2: the client reset the stream")
	errStreamDone  = errors.New("http2: the response is complete")
)

// conn is the server side of one connection.
type conn struct {
	srv      *server
	hs       *http.Server
	settings settings
	net      net.Conn
	corker   corker // the socket below TLS; nil if it cannot combine writes
	tls      *tls.ConnectionState
	remote   string
	// fallback is net/http's wrapper of the server's handler. It handles "OPTIONS *" and servers
	// without a handler. Other requests bypass it, because this package already sets everything
	// that the wrapper would add.
	fallback http.Handler
	ctx      context.Context // parent of the contexts of all requests; canceled when the connection ends
	began    time.Time

	// Only the reading goroutine uses the following fields.
	framer  *h2.Framer
	headers *headerDecoder
	head    requestHead // the request header that is being processed
	flood   flood
	unacked int // number of SETTINGS frames that the client has not acknowledged

	mu sync.Mutex // guards the following fields and the streams

	streams    map[uint32]*stream
	lastID     uint32    // highest stream ID that the client has used
	resets     []uint32  // the streams that the server has reset last, at most maxResets
	handlers   int       // number of running handlers, including handlers of closed streams
	unstarted  []*stream // streams whose handlers wait for a free slot
	goAwaySent bool      // GOAWAY has been sent; streams after lastID are ignored
	err        error     // set once the connection has failed or is closing

	in         inflow
	out        outflow
	peerWindow int32 // initial send window of new streams, in bytes

	output
	runQueue runQueue

	keepalive
}

func newConn(ctx context.Context, srv *server, hs *http.Server, nc net.Conn, state *tls.ConnectionState, h http.Handler) *conn {
	c := &conn{
		srv:        srv,
		hs:         hs,
		settings:   settingsOf(hs),
		net:        nc,
		corker:     corkerOf(nc),
		tls:        state,
		remote:     nc.RemoteAddr().String(),
		fallback:   h,
		ctx:        ctx,
		began:      time.Now(),
		framer:     h2.NewFramer(nil, nc),
		streams:    make(map[uint32]*stream),
		in:         inflow{avail: minWindow},
		out:        minWindow,
		peerWindow: minWindow,
	}
	c.headers = newHeaderDecoder(c.framer, &c.settings)
	c.framer.SetMaxReadFrameSize(c.settings.frame)
	c.output.init(c)
	return c
}

// clock returns the time since the connection was accepted.
func (c *conn) clock() time.Duration { return time.Since(c.began) }

// serve runs the connection until it ends.
func (c *conn) serve() {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	c.ctx = ctx
	defer c.teardown()
	if why := weakTLS(c.tls, c.hs.HTTP2); why != "" {
		c.closeWithError(h2.ErrCodeInadequateSecurity, why)
		return
	}
	// Remove the deadlines that net/http set for the TLS handshake.
	_ = c.net.SetDeadline(time.Time{})
	c.srv.start(c)
	if err := c.readPreface(); err != nil {
		logTo(c.hs, "http2: reading the preface of %s: %v", c.remote, err)
		return
	}
	c.startKeepalive()
	c.readFrames()
}

// sendPreface sends the server's connection preface: SETTINGS, and WINDOW_UPDATE for the window of the
// connection. If the server is shutting down, GOAWAY follows. sendPreface does not block on the client.
func (c *conn) sendPreface(shuttingDown bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.frames.WriteSettings(
		h2.Setting{ID: h2.SettingMaxFrameSize, Val: c.settings.frame},
		h2.Setting{ID: h2.SettingMaxConcurrentStreams, Val: c.settings.streams},
		h2.Setting{ID: h2.SettingMaxHeaderListSize, Val: c.settings.headerList},
		h2.Setting{ID: h2.SettingHeaderTableSize, Val: c.settings.decodeTable},
		h2.Setting{ID: h2.SettingInitialWindowSize, Val: uint32(c.settings.window)},
	)
	c.unacked++
	if more := c.settings.connWindow - c.in.avail; more > 0 {
		_ = c.frames.WriteWindowUpdate(0, uint32(more))
		c.in.avail += more
	}
	if shuttingDown {
		c.goAway()
	}
	c.flushAsync()
}

// readPreface reads the client's connection preface and sets the read deadline for the SETTINGS
// frame that must follow.
func (c *conn) readPreface() error {
	_ = c.net.SetReadDeadline(time.Now().Add(prefaceTimeout))
	var got [len(h2.ClientPreface)]byte
	for n := 0; n < len(got); {
		m, err := c.net.Read(got[n:])
		if n += m; !bytes.HasPrefix([]byte(h2.ClientPreface), got[:n]) {
			return errors.New("not an HTTP/2 client preface")
		}
		if err != nil && n < len(got) {
			return err
		}
	}
	_ = c.net.SetReadDeadline(time.Now().Add(settingsTimeout))
	return nil
}

// goAway sends GOAWAY. Streams with an ID greater than lastID are then ignored, and the connection closes when
// all other streams have ended. c.mu must be held.
func (c *conn) goAway() {
	if c.goAwaySent || c.err != nil {
		return
	}
	c.goAwaySent = true
	_ = c.frames.WriteGoAway(c.lastID, h2.ErrCodeNo, nil)
	c.closeIfDone()
}

// closeIfDone closes the connection if GOAWAY has been sent and no stream is left. c.mu must be held.
func (c *conn) closeIfDone() {
	if c.goAwaySent && len(c.streams) == 0 && c.err == nil {
		go c.closeWrites() // blocks until pending data is written
	}
}

// closeWrites sends the pending data and the close_notify alert of TLS. The client then has lingerTimeout to
// close its side, which ends the reading goroutine.
func (c *conn) closeWrites() {
	c.mu.Lock()
	c.flush()
	for c.writing {
		c.progress.Wait()
	}
	c.mu.Unlock()
	_ = c.net.SetDeadline(time.Now().Add(lingerTimeout))
	if half, ok := c.net.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// closeWithError closes the connection after a protocol error of the client. It sends GOAWAY with code and why,
// and blocks until the client has closed its side, or for lingerTimeout.
func (c *conn) closeWithError(code h2.ErrCode, why string) {
	c.mu.Lock()
	if c.err == nil {
		_ = c.frames.WriteGoAway(c.lastID, code, []byte(why))
	}
	c.closeStreams(errConnClosed)
	c.mu.Unlock()
	_ = c.net.SetDeadline(time.Now().Add(lingerTimeout)) // closeWrites must not block on a client that does not read
	c.closeWrites()
	_, _ = io.CopyN(io.Discard, c.net, lingerBytes) // returns at the deadline at the latest
}

// teardown ends all streams and closes the network connection.
func (c *conn) teardown() {
	c.mu.Lock()
	c.closeStreams(errConnClosed)
	c.stopKeepalive()
	c.mu.Unlock()
	_ = c.net.Close()
}

// closeStreams ends all streams with err and rejects new ones. c.mu must be held.
func (c *conn) closeStreams(err error) {
	if c.err == nil {
		c.err = err
	}
	for _, s := range c.streams {
		s.close(err)
	}
	c.unstarted = nil
	c.progress.Broadcast()
	c.room.Broadcast()
}

// startHandler starts the handler of a stream, or queues the stream until another handler returns. It returns
// false if the queue is full. c.mu must be held.
func (c *conn) startHandler(s *stream) bool {
	limit := int(c.settings.streams)
	if c.handlers < limit {
		c.handlers++
		go s.run() // returns after the handler
		return true
	}
	if len(c.unstarted) >= unstartedPerStream*limit {
		return false
	}
	c.unstarted = append(c.unstarted, s)
	return true
}

// handlerDone releases the slot of a handler that has returned, and starts the next queued handler.
func (c *conn) handlerDone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers--
	for len(c.unstarted) > 0 {
		s := c.unstarted[0]
		c.unstarted[0] = nil
		c.unstarted = c.unstarted[1:]
		if s.err == nil { // the client still expects a response
			c.handlers++
			go s.run() // returns after the handler
			return
		}
	}
}
