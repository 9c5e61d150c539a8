package http2

import (
	"errors"
	"net/http"
	"slices"
	"time"

	h2 "golang.org/x/net/http2"
)

// errEnhanceYourCalm closes connections of clients that send floods of useless frames.
const errEnhanceYourCalm = h2.ConnectionError(h2.ErrCodeEnhanceYourCalm)

// readFrames processes frames until the connection ends.
func (c *conn) readFrames() {
	first := true
	for {
		f, err := c.readFrame()
		if err == nil {
			if _, ok := f.(*h2.SettingsFrame); first && !ok {
				c.closeWithError(h2.ErrCodeProtocol, "the first frame is not SETTINGS")
				return
			}
			if first {
				first = false
				_ = c.net.SetReadDeadline(time.Time{})
			}
			err = c.process(f)
			c.headers.release()
			c.head = requestHead{}
		}
		if err != nil && !c.handleError(f, err) {
			return
		}
	}
}

// readFrame reads the next frame. For HEADERS, it reads the complete header block and returns a
// MetaHeadersFrame. With an error, it also returns the frame that caused it, if known.
func (c *conn) readFrame() (h2.Frame, error) {
	head, err := c.framer.ReadFrameHeader()
	if err != nil {
		return nil, err
	}
	f, err := c.framer.ReadFrameForHeader(head)
	if err != nil {
		if head.Type == h2.FrameHeaders && errors.As(err, new(h2.StreamError)) {
			// The padding is longer than the frame, so the header block cannot be decoded. Without
			// this block, HPACK cannot decode later blocks either.
			err = h2.ConnectionError(h2.ErrCodeProtocol)
		}
		return nil, err
	}
	h, ok := f.(*h2.HeadersFrame)
	if !ok {
		return f, nil
	}
	block, err := c.headers.decode(h)
	if err != nil {
		return h, err
	}
	return block, nil
}

// handleError resets the affected stream or closes the connection. It returns false if the connection has
// ended.
func (c *conn) handleError(f h2.Frame, err error) bool {
	var (
		ofStream h2.StreamError
		ofConn   h2.ConnectionError
	)
	switch {
	case errors.As(err, &ofStream):
		if c.resetStream(ofStream) == nil {
			return true
		}
		ofConn = errEnhanceYourCalm
	case errors.Is(err, h2.ErrFrameTooLarge):
		ofConn = h2.ConnectionError(h2.ErrCodeFrameSize)
	case !errors.As(err, &ofConn):
		return false // the client has disconnected
	}
	logTo(c.hs, "http2: connection error from %s: %v", c.remote, ofConn)
	why := ""
	if detail := c.framer.ErrorDetail(); detail != nil {
		why = detail.Error()
	}
	c.mu.Lock()
	if f != nil {
		c.lastID = max(c.lastID, f.Header().StreamID)
	}
	c.mu.Unlock()
	c.closeWithError(h2.ErrCode(ofConn), why)
	return false
}

// resetStream resets the stream that caused an error. It returns errEnhanceYourCalm if the client causes too
// many of these errors.
func (c *conn) resetStream(e h2.StreamError) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID = max(c.lastID, e.StreamID)
	if s := c.streams[e.StreamID]; s != nil {
		s.reset(e.Code, e)
	} else {
		c.writeReset(e.StreamID, e.Code)
	}
	c.flushAsync()
	return c.countFlood(13)
}

// countFlood counts a useless frame. reply is the size of the reply to the frame, in bytes. countFlood returns
// errEnhanceYourCalm if the client sends too many useless frames or does not read the replies. c.mu must be
// held.
func (c *conn) countFlood(reply int) error {
	if c.flood.add(c.clock()) || reply > 0 && !c.countReply(reply) {
		return errEnhanceYourCalm
	}
	return nil
}

// process handles a frame.
func (c *conn) process(f h2.Frame) error {
	var r *requestHead
	if h, ok := f.(*h2.MetaHeadersFrame); ok && h.StreamID > c.lastID { // not trailers
		r = c.parse(h) // parsing does not need the lock
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastRead = c.clock()
	if c.goAwaySent && f.Header().StreamID > c.lastID {
		return c.discardFrame(f)
	}
	switch f := f.(type) {
	case *h2.MetaHeadersFrame:
		return c.processHeaders(f, r)
	case *h2.DataFrame:
		return c.processData(f)
	case *h2.WindowUpdateFrame:
		return c.processWindowUpdate(f)
	case *h2.RSTStreamFrame:
		return c.processResetStream(f)
	case *h2.SettingsFrame:
		return c.processSettings(f)
	case *h2.PingFrame:
		return c.processPing(f)
	case *h2.PriorityFrame:
		if f.StreamDep == f.StreamID {
			return h2.StreamError{StreamID: f.StreamID, Code: h2.ErrCodeProtocol}
		}
		return c.countFlood(0)
	case *h2.GoAwayFrame:
		c.goAway()
		c.flushAsync()
		return nil
	case *h2.PushPromiseFrame:
		return h2.ConnectionError(h2.ErrCodeProtocol)
	}
	return c.countFlood(0) // unknown frame types must be ignored
}

// discardFrame drops a frame of a stream that GOAWAY has rejected. The bytes of DATA frames still count for the
// window of the connection.
func (c *conn) discardFrame(f h2.Frame) error {
	data, ok := f.(*h2.DataFrame)
	if !ok {
		return c.countFlood(0)
	}
	if !c.in.take(data.Length) {
		return h2.ConnectionError(h2.ErrCodeFlowControl)
	}
	c.returnWindow(int(data.Length))
	return nil
}

// returnWindow permits the client to send n more bytes in any stream.
func (c *conn) returnWindow(n int) {
	c.in.release(n)
	c.sendWindowUpdate()
	c.flushAsync()
}

func (c *conn) processHeaders(f *h2.MetaHeadersFrame, r *requestHead) error {
	id := f.StreamID
	if id%2 == 0 {
		return h2.ConnectionError(h2.ErrCodeProtocol)
	}
	if s := c.streams[id]; s != nil {
		return s.processTrailers(f)
	}
	switch {
	case r == nil && slices.Contains(c.resets, id): // the client sent trailers before it received the reset
		return c.countFlood(0)
	case r == nil:
		return h2.ConnectionError(h2.ErrCodeProtocol)
	}
	c.lastID = id
	if len(c.streams) >= int(c.settings.streams) {
		if c.unacked > 0 { // the client might not have received the limit yet
			return h2.StreamError{StreamID: id, Code: h2.ErrCodeRefusedStream}
		}
		return h2.StreamError{StreamID: id, Code: h2.ErrCodeProtocol}
	}
	if r.malformed || f.HasPriority() && f.Priority.StreamDep == id {
		return h2.StreamError{StreamID: id, Code: h2.ErrCodeProtocol}
	}
	if !c.startHandler(c.newStream(id, f.StreamEnded(), r)) {
		return errEnhanceYourCalm
	}
	return nil
}

func (s *stream) processTrailers(f *h2.MetaHeadersFrame) error {
	if s.remoteEnded {
		return h2.StreamError{StreamID: s.id, Code: h2.ErrCodeStreamClosed}
	}
	if !f.StreamEnded() || f.Truncated || len(f.PseudoFields()) > 0 {
		return h2.StreamError{StreamID: s.id, Code: h2.ErrCodeProtocol}
	}
	if s.drain == nil && s.request != nil && s.request.Trailer != nil {
		s.body.trailer = make(http.Header)
		for _, field := range f.RegularFields() {
			key := http.CanonicalHeaderKey(field.Name)
			if !validTrailer(key) {
				return h2.StreamError{StreamID: s.id, Code: h2.ErrCodeProtocol}
			}
			s.body.trailer[key] = append(s.body.trailer[key], field.Value)
		}
	}
	s.endRequest()
	return nil
}

func (c *conn) processData(f *h2.DataFrame) error {
	id := f.StreamID
	if id > c.lastID { // never opened
		return h2.ConnectionError(h2.ErrCodeProtocol)
	}
	if !c.in.take(f.Length) {
		return h2.ConnectionError(h2.ErrCodeFlowControl)
	}
	s := c.streams[id]
	if s == nil || s.remoteEnded {
		c.returnWindow(int(f.Length))
		return h2.StreamError{StreamID: id, Code: h2.ErrCodeStreamClosed}
	}
	data := f.Data()
	if s.body.exceeded(len(data)) {
		c.returnWindow(int(f.Length))
		return h2.StreamError{StreamID: id, Code: h2.ErrCodeProtocol}
	}
	if !s.in.take(f.Length) {
		c.returnWindow(int(f.Length))
		return h2.StreamError{StreamID: id, Code: h2.ErrCodeFlowControl}
	}
	if s.drain != nil {
		s.drainData(int(f.Length))
	} else {
		s.receive(data, int(f.Length)-len(data))
	}
	if f.StreamEnded() {
		s.endRequest()
	} else {
		s.sendWindowUpdate()
	}
	c.sendWindowUpdate()
	c.flushAsync()
	if len(data) == 0 && !f.StreamEnded() {
		return c.countFlood(0)
	}
	return nil
}

// receive appends data to the request body. It returns the padding bytes to the windows immediately, because no
// handler reads them.
func (s *stream) receive(data []byte, padding int) {
	if len(data) > 0 {
		s.body.add(data)
	}
	if padding > 0 {
		s.conn.in.release(padding)
		s.in.release(padding)
	}
}

// endRequest processes the flag END_STREAM, after which the client sends no more data.
func (s *stream) endRequest() {
	s.remoteEnded = true
	if s.drain != nil {
		s.close(errStreamDone)
		return
	}
	s.body.end()
}

func (c *conn) processWindowUpdate(f *h2.WindowUpdateFrame) error {
	if f.StreamID == 0 {
		if !c.out.add(int32(f.Increment)) {
			return h2.ConnectionError(h2.ErrCodeFlowControl)
		}
		c.progress.Broadcast()
		return nil
	}
	if f.StreamID > c.lastID {
		return h2.ConnectionError(h2.ErrCodeProtocol)
	}
	s := c.streams[f.StreamID]
	if s == nil {
		return nil // the client sent the frame before it received the end of the stream
	}
	if !s.out.add(int32(f.Increment)) {
		return h2.StreamError{StreamID: s.id, Code: h2.ErrCodeFlowControl}
	}
	s.wake.Broadcast()
	return nil
}

func (c *conn) processResetStream(f *h2.RSTStreamFrame) error {
	if f.StreamID > c.lastID {
		return h2.ConnectionError(h2.ErrCodeProtocol)
	}
	s := c.streams[f.StreamID]
	if s == nil {
		return c.countFlood(0)
	}
	complete := s.drain != nil // a reset after a complete response only ends the body and is legitimate
	s.close(errStreamReset)
	c.flushAsync() // writes WINDOW_UPDATE for the dropped body
	if complete {
		return nil
	}
	return c.countFlood(0)
}

func (c *conn) processPing(f *h2.PingFrame) error {
	if f.IsAck() {
		if f.Data == c.ping {
			c.pingSent = 0
		}
		return nil
	}
	_ = c.frames.WritePing(true, f.Data)
	c.flushAsync()
	return c.countFlood(17)
}

func (c *conn) processSettings(f *h2.SettingsFrame) error {
	if f.IsAck() {
		if c.unacked--; c.unacked < 0 {
			return h2.ConnectionError(h2.ErrCodeProtocol)
		}
		return nil
	}
	if f.NumSettings() > maxSettings {
		return h2.ConnectionError(h2.ErrCodeProtocol)
	}
	if err := f.ForeachSetting(c.processSetting); err != nil {
		return err
	}
	_ = c.frames.WriteSettingsAck()
	c.flushAsync()
	return c.countFlood(9)
}

func (c *conn) processSetting(v h2.Setting) error {
	if err := v.Valid(); err != nil {
		return err
	}
	switch v.ID {
	case h2.SettingHeaderTableSize:
		c.encoder.SetMaxDynamicTableSize(v.Val)
	case h2.SettingInitialWindowSize:
		more := int32(v.Val) - c.peerWindow // may be negative
		c.peerWindow = int32(v.Val)
		for _, s := range c.streams {
			if !s.out.add(more) {
				return h2.ConnectionError(h2.ErrCodeFlowControl)
			}
			s.wake.Broadcast()
		}
	}
	return nil
}
