package http2

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	h2 "golang.org/x/net/http2"
)

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// untilGone is a handler that runs until the client disconnects, like a watch.
func untilGone(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func few(streams int) func(*http.Server) {
	return func(s *http.Server) { s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams} }
}

// TestFloods checks that the server closes a connection on which it receives a flood of useless frames.
func TestFloods(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(r *raw, i int) error{
		"ping":        func(r *raw, _ int) error { return r.frames.WritePing(false, [8]byte{1}) },
		"settings":    func(r *raw, _ int) error { return r.frames.WriteSettings() },
		"priority":    func(r *raw, _ int) error { return r.frames.WritePriority(1, h2.PriorityParam{Weight: 1}) },
		"empty data":  func(r *raw, _ int) error { return r.frames.WriteData(1, false, nil) },
		"closed data": func(r *raw, _ int) error { return r.frames.WriteData(3, false, []byte("x")) },
		"unknown":     func(r *raw, _ int) error { return r.frames.WriteRawFrame(0x77, 0, 1, nil) },
		"rapid reset": func(r *raw, i int) error {
			id := uint32(5 + 2*i)
			if err := r.frames.WriteHeaders(h2.HeadersFrameParam{StreamID: id, EndStream: true, EndHeaders: true,
				BlockFragment: r.encode(":method", "GET", ":scheme", "https", ":path", "/")}); err != nil {
				return err
			}
			return r.frames.WriteRSTStream(id, h2.ErrCodeCancel)
		},
		"malformed": func(r *raw, i int) error {
			return r.frames.WriteHeaders(h2.HeadersFrameParam{StreamID: uint32(5 + 2*i), EndStream: true, EndHeaders: true,
				BlockFragment: r.encode(":method", "GET")})
		},
		"trailers after a reset": func(r *raw, i int) error {
			fields := []string{"x", "y"}
			if i == 0 {
				fields = []string{":method", "GET"} // malformed
			}
			return r.frames.WriteHeaders(h2.HeadersFrameParam{StreamID: 5, EndStream: true, EndHeaders: true, BlockFragment: r.encode(fields...)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// In the bubble, the time does not advance while frames are sent, so the speed of the machine
			// has no effect.
			synctest.Test(t, func(t *testing.T) { testFlood(t, send) })
		})
	}
}

// testFlood sends frames until the connection ends.
func testFlood(t *testing.T, send func(r *raw, i int) error) {
	t.Helper()
	r := connect(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			untilGone(w, r)
		}
	}, nil)
	r.post(1)
	r.post(3)
	r.ok(r.frames.WriteRSTStream(3, h2.ErrCodeCancel))
	var goAway bool
	read := make(chan struct{})
	go func() {
		defer close(read)
		for got := range r.got {
			goAway = goAway || strings.HasPrefix(got, "GOAWAY") && strings.HasSuffix(got, "ENHANCE_YOUR_CALM")
		}
	}()
	var closed error // if a write fails, the client might not receive GOAWAY, because closing the connection can drop it
	for i := range 2 * floodFrames {
		if closed = send(r, i); closed != nil {
			break
		}
	}
	<-read
	if !goAway && closed == nil {
		t.Error("the flood did not end the connection")
	}
}

// TestBrokenConnections checks the errors that end a connection.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		send func(r *raw)
		code h2.ErrCode
	}{
		{"even stream", func(r *raw) { r.request(2, true) }, h2.ErrCodeProtocol},
		{"decreasing stream ID", func(r *raw) { r.request(5, true); r.request(3, true) }, h2.ErrCodeProtocol},
		{"trailers of a stream that the client has reset", func(r *raw) {
			r.post(1)
			r.ok(r.frames.WriteRSTStream(1, h2.ErrCodeCancel))
			r.request(1, true, "x", "y")
		}, h2.ErrCodeProtocol},
		{"data on an idle stream", func(r *raw) { r.ok(r.frames.WriteData(7, true, nil)) }, h2.ErrCodeProtocol},
		{"reset of an idle stream", func(r *raw) { r.ok(r.frames.WriteRSTStream(7, h2.ErrCodeCancel)) }, h2.ErrCodeProtocol},
		{"window of an idle stream", func(r *raw) { r.ok(r.frames.WriteWindowUpdate(7, 1)) }, h2.ErrCodeProtocol},
		{"window too wide", func(r *raw) { r.ok(r.frames.WriteWindowUpdate(0, 1<<31-1)) }, h2.ErrCodeFlowControl},
		{"windows too wide by settings", func(r *raw) {
			r.request(1, true)
			r.ok(r.frames.WriteWindowUpdate(1, 1<<31-1-minWindow))
			r.ok(r.frames.WriteSettings(h2.Setting{ID: h2.SettingInitialWindowSize, Val: 1<<31 - 1}))
		}, h2.ErrCodeFlowControl},
		{"bad settings", func(r *raw) {
			r.ok(r.frames.WriteSettings(h2.Setting{ID: h2.SettingMaxFrameSize, Val: 1}))
		}, h2.ErrCodeProtocol},
		{"too many settings", func(r *raw) {
			r.ok(r.frames.WriteSettings(make([]h2.Setting, maxSettings+1)...))
		}, h2.ErrCodeProtocol},
		{"duplicate SETTINGS ack", func(r *raw) { r.ok(r.frames.WriteSettingsAck()) }, h2.ErrCodeProtocol},
		{"frame too large", func(r *raw) {
			_ = r.frames.WriteRawFrame(h2.FrameData, 0, 1, make([]byte, defaultFrame+1))
		}, h2.ErrCodeFrameSize},
		{"push", func(r *raw) {
			r.ok(r.frames.WritePushPromise(h2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true}))
		}, h2.ErrCodeProtocol},
		{"compression", func(r *raw) {
			r.ok(r.frames.WriteHeaders(h2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff, 0xff}}))
		}, h2.ErrCodeCompression},
		{"endless continuation", func(r *raw) {
			field := r.encode("x-a", strings.Repeat("a", 10_000))
			_ = r.frames.WriteHeaders(h2.HeadersFrameParam{StreamID: 1, BlockFragment: field})
			for range 1000 {
				if r.frames.WriteContinuation(1, false, field) != nil {
					return
				}
			}
		}, h2.ErrCodeEnhanceYourCalm},
		{"continuation after too many bytes", func(r *raw) {
			_ = r.frames.WriteHeaders(h2.HeadersFrameParam{StreamID: 1, BlockFragment: r.encode("x-a", strings.Repeat("a", 3000))})
			for range 3 {
				_ = r.frames.WriteContinuation(1, false, bytes.Repeat([]byte{0x80 | 62}, 200)) // an index of the field above
			}
		}, h2.ErrCodeProtocol},
		{"empty continuations", func(r *raw) {
			_ = r.frames.WriteHeaders(h2.HeadersFrameParam{StreamID: 1, BlockFragment: r.encode("a", "b")})
			for range 100 {
				_ = r.frames.WriteContinuation(1, false, nil)
			}
		}, h2.ErrCodeEnhanceYourCalm},
		{"padding longer than HEADERS", func(r *raw) {
			r.ok(r.frames.WriteRawFrame(h2.FrameHeaders, h2.FlagHeadersPadded|h2.FlagHeadersEndHeaders, 1, []byte{200, 0x82}))
		}, h2.ErrCodeProtocol},
		{"padding longer than DATA", func(r *raw) {
			r.post(1)
			r.ok(r.frames.WriteRawFrame(h2.FrameData, h2.FlagDataPadded, 1, []byte{200, 'x'}))
		}, h2.ErrCodeProtocol},
		{"interrupted header", func(r *raw) {
			r.ok(r.frames.WriteHeaders(h2.HeadersFrameParam{StreamID: 1, BlockFragment: r.encode("a", "b")}))
			r.ok(r.frames.WriteData(1, true, nil))
		}, h2.ErrCodeProtocol},
		{"resets of waiting handlers", func(r *raw) {
			for i := range uint32(2 + unstartedPerStream*2 + 1) {
				r.request(2*i+1, true)
				r.ok(r.frames.WriteRSTStream(2*i+1, h2.ErrCodeCancel))
			}
		}, h2.ErrCodeEnhanceYourCalm},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			defer close(release)
			r := connect(t, func(http.ResponseWriter, *http.Request) { <-release }, few(2))
			r.mayEnd = true
			go tt.send(r)
			for got := range r.got {
				if strings.HasPrefix(got, "GOAWAY") {
					if !strings.HasSuffix(got, tt.code.String()) {
						t.Errorf("got %s, want %v", got, tt.code)
					}
					return
				}
			}
			t.Error("the connection ended without GOAWAY")
		})
	}
}

// TestReadAfterViolation checks that the server reads at most lingerBytes after a protocol
// violation.
func TestReadAfterViolation(t *testing.T) {
	t.Parallel()
	r := connect(t, func(http.ResponseWriter, *http.Request) {}, nil)
	r.ok(r.frames.WriteData(0, false, []byte("on no stream")))
	block, written := make([]byte, 64<<10), 0
	for {
		n, err := r.net.Write(block)
		if written += n; err != nil {
			break
		}
	}
	if written > lingerBytes+len(block) {
		t.Errorf("read %d bytes after the violation, limit %d", written, lingerBytes)
	}
}

// TestBrokenStreams checks the errors that end one stream and do not affect others.
func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	with := func(more ...string) []string {
		return append([]string{":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a"}, more...)
	}
	for _, tt := range []struct {
		name string
		send func(r *raw)
		want string
	}{
		{"no path", func(r *raw) { r.request(1, true, ":method", "GET", ":scheme", "https") }, "RST 1 PROTOCOL_ERROR"},
		{"no method", func(r *raw) { r.request(1, true, ":path", "/", ":scheme", "https") }, "RST 1 PROTOCOL_ERROR"},
		{"scheme", func(r *raw) { r.request(1, true, ":path", "/", ":scheme", "ftp", ":method", "GET") }, "RST 1 PROTOCOL_ERROR"},
		{"relative path", func(r *raw) { r.request(1, true, ":path", "a", ":scheme", "https", ":method", "GET") }, "RST 1 PROTOCOL_ERROR"},
		{"bad path", func(r *raw) { r.request(1, true, ":path", "/%zz", ":scheme", "https", ":method", "GET") }, "RST 1 PROTOCOL_ERROR"},
		{"duplicate path", func(r *raw) { r.request(1, true, with(":path", "/")...) }, "RST 1 PROTOCOL_ERROR"},
		{"pseudo field after a regular one", func(r *raw) { r.request(1, true, with("a", "b", ":x", "y")...) }, "RST 1 PROTOCOL_ERROR"},
		{"upper case", func(r *raw) { r.request(1, true, with("A", "b")...) }, "RST 1 PROTOCOL_ERROR"},
		{"line break", func(r *raw) { r.request(1, true, with("a", "b\r\nc: d")...) }, "RST 1 PROTOCOL_ERROR"},
		{"content-lengths differ", func(r *raw) { r.post(1, "content-length", "1", "content-length", "2") }, "RST 1 PROTOCOL_ERROR"},
		{"negative content-length", func(r *raw) { r.post(1, "content-length", "-1") }, "RST 1 PROTOCOL_ERROR"},
		{"list of content-lengths", func(r *raw) { r.post(1, "content-length", "1, 1") }, "RST 1 PROTOCOL_ERROR"},
		{"content-length without a body", func(r *raw) { r.request(1, true, with("content-length", "5")...) }, "RST 1 PROTOCOL_ERROR"},
		{"duplicate content-length", func(r *raw) {
			r.request(1, false, with("content-length", "2", "content-length", "2")...)
			r.ok(r.frames.WriteData(1, true, []byte("12")))
		}, "HEADERS 1 200 end"},
		{"hosts differ", func(r *raw) { r.request(1, true, with("host", "b")...) }, "RST 1 PROTOCOL_ERROR"},
		{"two hosts", func(r *raw) { r.request(1, true, with("host", "a", "host", "a")...) }, "RST 1 PROTOCOL_ERROR"},
		{"user in the authority", func(r *raw) {
			r.request(1, true, ":method", "GET", ":scheme", "https", ":path", "/", ":authority", "u@a")
		}, "RST 1 PROTOCOL_ERROR"},
		{"connect", func(r *raw) { r.request(1, true, ":method", "CONNECT", ":authority", "a", ":path", "/") }, "RST 1 PROTOCOL_ERROR"},
		{"extended connect", func(r *raw) {
			r.request(1, true, ":method", "CONNECT", ":scheme", "https", ":path", "/", ":authority", "a", ":protocol", "websocket")
		}, "RST 1 PROTOCOL_ERROR"},
		{"connection header", func(r *raw) { r.request(1, true, with("connection", "close")...) }, "HEADERS 1 400"},
		{"long header", func(r *raw) {
			r.ok(r.frames.WriteHeaders(h2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: true,
				BlockFragment: r.encode(append(with(), slices.Repeat([]string{"a", strings.Repeat("x", 1000)}, 110)...)...)}))
		}, "HEADERS 1 431"},
		{"many fields", func(r *raw) {
			r.request(1, true, with(slices.Repeat([]string{"a", ""}, MaxHeaderFields)...)...)
		}, "HEADERS 1 431"},
		{"many trailers announced", func(r *raw) {
			r.request(1, true, with("trailer", strings.Repeat("a,", MaxHeaderFields))...)
		}, "HEADERS 1 431"},
		{"many trailers", func(r *raw) {
			r.post(1)
			r.request(1, true, slices.Repeat([]string{"a", ""}, MaxHeaderFields+1)...)
		}, "RST 1 PROTOCOL_ERROR"},
		{"priority dependency on itself", func(r *raw) {
			r.ok(r.frames.WriteHeaders(h2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: true,
				BlockFragment: r.encode(with()...), Priority: h2.PriorityParam{StreamDep: 1}}))
		}, "RST 1 PROTOCOL_ERROR"},
		{"trailers without END_STREAM", func(r *raw) {
			r.post(1)
			r.request(1, false, "a", "b")
		}, "RST 1 PROTOCOL_ERROR"},
		{"pseudo trailers", func(r *raw) {
			r.post(1)
			r.request(1, true, ":path", "/")
		}, "RST 1 PROTOCOL_ERROR"},
		{"forbidden trailer", func(r *raw) {
			r.post(1, "trailer", "x")
			r.request(1, true, "content-length", "1")
		}, "RST 1 PROTOCOL_ERROR"},
		{"body exceeds content-length", func(r *raw) {
			r.post(1, "content-length", "3")
			r.ok(r.frames.WriteData(1, false, []byte("1234")))
		}, "RST 1 PROTOCOL_ERROR"},
		{"data after END_STREAM", func(r *raw) {
			r.post(1)
			r.ok(r.frames.WriteData(1, true, nil))
			r.ok(r.frames.WriteData(1, true, []byte("x")))
		}, "RST 1 STREAM_CLOSED"},
		{"beyond the window", func(r *raw) {
			r.post(1)
			for range 4 { // the handler does not read
				r.ok(r.frames.WriteData(1, false, make([]byte, 16<<10)))
			}
			r.ok(r.frames.WriteData(1, false, make([]byte, 1)))
		}, "RST 1 FLOW_CONTROL_ERROR"},
		{"window too wide", func(r *raw) {
			r.post(1)
			r.ok(r.frames.WriteWindowUpdate(1, 1<<31-1))
		}, "RST 1 FLOW_CONTROL_ERROR"},
		{"window increment of 0", func(r *raw) {
			r.post(1)
			r.ok(r.frames.WriteWindowUpdate(1, 0))
		}, "RST 1 PROTOCOL_ERROR"},
		{"too many streams", func(r *raw) {
			r.post(1)
			r.post(3)
			r.post(5)
		}, "RST 5 PROTOCOL_ERROR"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := connect(t, func(_ http.ResponseWriter, r *http.Request) {
				if r.Method == "POST" {
					<-r.Context().Done()
				}
			}, func(s *http.Server) {
				s.MaxHeaderBytes = 100_000
				s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 2, MaxReceiveBufferPerStream: 64 << 10}
			})
			tt.send(r)
			r.await(tt.want)
			if tt.name != "too many streams" {
				r.request(11, true)
				r.await("HEADERS 11 200 end")
			}
		})
	}
}

// TestTimeouts checks that the connections of unresponsive clients are closed after the expected times.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		do    func(r *raw)
		lasts time.Duration
	}{
		{"no preface", func(r *raw) { go r.read() }, prefaceTimeout},
		{"half a preface", func(r *raw) {
			go r.read()
			_, _ = io.WriteString(r.net, h2.ClientPreface[:10])
		}, prefaceTimeout},
		{"no settings", func(r *raw) {
			go r.read()
			r.preface()
		}, settingsTimeout},
		{"idle", func(r *raw) { r.hello() }, 20*time.Second + lingerTimeout},
		{"idle after a stream", func(r *raw) {
			r.hello()
			time.Sleep(10 * time.Second)
			r.request(1, true)
			r.await("DATA 1 5 end")
		}, 30*time.Second + lingerTimeout},
		{"no response to PING", func(r *raw) {
			r.hello()
			r.post(1)
		}, 45 * time.Second},
		{"client does not read", func(r *raw) {
			go func() { // reads nothing else
				f := h2.NewFramer(nil, r.net)
				for range 3 {
					_, _ = f.ReadFrame()
				}
				<-r.done
				close(r.got)
			}()
			r.preface()
			r.ok(r.frames.WriteSettings(h2.Setting{ID: h2.SettingInitialWindowSize, Val: 1 << 30}))
			r.request(1, true, ":method", "PUT", ":scheme", "https", ":path", "/")
		}, 25 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				r := silent(t, func(w http.ResponseWriter, r *http.Request) {
					switch r.Method {
					case "POST":
						untilGone(w, r)
					case "PUT":
						_, _ = w.Write(make([]byte, 10<<20))
					default:
						hello(w, r)
					}
				}, func(s *http.Server) {
					s.IdleTimeout = 20 * time.Second
					s.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second, WriteByteTimeout: 25 * time.Second}
				})
				tt.do(r)
				<-r.done
				if lasted := time.Since(start).Round(time.Second); lasted != tt.lasts {
					t.Errorf("the connection lasted %v, want %v", lasted, tt.lasts)
				}
				synctest.Wait()
			})
		})
	}
}

// TestPingResponses checks that a client that responds to pings stays connected.
func TestPingResponses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := connect(t, untilGone, func(s *http.Server) {
			s.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second}
		})
		r.request(1, true)
		r.await("HEADERS 1 200")
		pings := 0
		r.awaitPings(10, func(frame *[8]byte) { pings++ })
		if pings != 10 {
			t.Errorf("%d pings", pings)
		}
	})
}

// awaitPings responds to n pings of the server's keepalive.
func (r *raw) awaitPings(n int, each func(*[8]byte)) {
	r.t.Helper()
	for range n {
		r.await("PING ack=false")
		r.srv.mu.Lock()
		for c := range r.srv.conns {
			c.mu.Lock()
			data := c.ping
			c.mu.Unlock()
			each(&data)
			r.ok(r.frames.WritePing(true, data))
		}
		r.srv.mu.Unlock()
	}
}

// TestUnreadReplies checks that the server disconnects a client that causes replies but does not read them.
func TestUnreadReplies(t *testing.T) {
	t.Parallel()
	r := silent(t, hello, nil)
	r.preface()
	r.ok(r.frames.WriteSettings())
	// The number of these frames is below the flood limit.
	for range 2*maxReplies/17 + 10 {
		if r.frames.WritePing(false, [8]byte{}) != nil {
			break
		}
	}
	r.srv.mu.Lock()
	for c := range r.srv.conns {
		c.mu.Lock()
		if c.err == nil {
			t.Error("the connection is still open")
		}
		c.mu.Unlock()
	}
	r.srv.mu.Unlock()
	_ = r.net.Close()
	<-r.done
}
