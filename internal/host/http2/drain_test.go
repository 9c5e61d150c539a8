package http2

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	h2 "golang.org/x/net/http2"
)

// forbid responds without reading the body.
func forbid(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }

// upload sends size bytes of a body as the flow-control windows permit. It returns false if the stream or the
// connection ends before all bytes are sent. It calls see with each received frame.
func (r *raw) upload(id uint32, size int, see func(got string)) bool {
	r.t.Helper()
	stream, conn := defaultWindow, defaultWindow
	for size > 0 {
		n := min(stream, conn, size, 16<<10)
		if n > 0 {
			r.ok(r.frames.WriteData(id, false, make([]byte, n)))
			size, stream, conn = size-n, stream-n, conn-n
			continue
		}
		got, ok := <-r.got
		if !ok || strings.HasPrefix(got, fmt.Sprintf("RST %d", id)) {
			see(got)
			return false
		}
		see(got)
		var on uint32
		var more int
		if _, err := fmt.Sscanf(got, "WINDOW_UPDATE %d %d", &on, &more); err == nil && on == 0 {
			conn += more
		} else if err == nil && on == id {
			stream += more
		}
	}
	return true
}

// TestEarlyResponse checks that the client can send the whole body after an early response, and that
// no reset follows.
func TestEarlyResponse(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	r := connect(t, func(w http.ResponseWriter, r *http.Request) {
		forbid(w, r)
		if r.Method == http.MethodPost {
			go func() { // the request ends before its stream
				<-r.Context().Done()
				close(ended)
			}()
		}
	}, few(1))
	r.post(1)
	r.await("HEADERS 1 403 end")
	<-ended
	if !r.upload(1, 3<<20, func(got string) {
		if strings.HasPrefix(got, "RST") {
			t.Error(got)
		}
	}) {
		t.Fatal("the stream ended before the whole body was sent")
	}
	r.ok(r.frames.WriteData(1, true, []byte("the end")))
	r.never("RST 1 NO_ERROR", "RST 1 STREAM_CLOSED")
	r.request(3, true) // the limit is one stream
	r.await("HEADERS 3 403 end")
}

// TestEarlyResponseEnds checks that the server limits how much of a body it drops.
func TestEarlyResponseEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		length string // declared, if any
		size   int    // bytes to send; -1 sends more than the limit
		lasts  time.Duration
	}{
		{"no body data", "", 0, drainTimeout},
		{"part of the body", "1000000", 1000, drainTimeout},
		{"body exceeds the limit", "", -1, lingerTimeout},
		{"declared length exceeds the limit", "100000000", 0, lingerTimeout},
		{"declared and sent body exceed the limit", "100000000", -1, lingerTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := connect(t, forbid, nil)
				start := time.Now()
				if tt.length != "" {
					r.post(1, "content-length", tt.length)
				} else {
					r.post(1)
				}
				r.await("HEADERS 1 403 end")
				last := ""
				sent := tt.size >= 0 && r.upload(1, tt.size, func(string) {})
				if !sent && r.upload(1, 2*drainBytes, func(got string) { last = got }) {
					t.Error("the whole body was accepted")
				}
				if sent {
					r.await("RST 1 NO_ERROR")
				} else if last != "RST 1 NO_ERROR" {
					t.Errorf("got %s", last)
				}
				if lasted := time.Since(start); lasted != tt.lasts {
					t.Errorf("the stream lasted %v, want %v", lasted, tt.lasts)
				}
			})
		})
	}
}

// TestEarlyResponseReset checks that resets by clients that have received the complete response do
// not count as a flood.
func TestEarlyResponseReset(t *testing.T) {
	t.Parallel()
	r := connect(t, forbid, nil)
	for i := range uint32(floodFrames + 100) {
		id := 2*i + 1
		r.post(id)
		r.await(fmt.Sprintf("HEADERS %d 403 end", id))
		r.ok(r.frames.WriteRSTStream(id, h2.ErrCodeCancel))
	}
	r.never("GOAWAY")
}

// TestEarlyResponseTrailers checks that a stream whose body is dropped also ends with trailers.
func TestEarlyResponseTrailers(t *testing.T) {
	t.Parallel()
	r := connect(t, forbid, few(1))
	r.post(1, "trailer", "x")
	r.await("HEADERS 1 403 end")
	r.ok(r.frames.WriteData(1, false, []byte("abc")))
	r.request(1, true, "x", "y")
	r.request(3, true)
	r.await("HEADERS 3 403 end")
}

// TestTrailersAfterReset checks that trailers are ignored if the client has sent them before it received the
// reset of the stream.
func TestTrailersAfterReset(t *testing.T) {
	t.Parallel()
	r := connect(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
	}, few(2))
	r.post(1, "content-length", "1")
	r.ok(r.frames.WriteData(1, false, []byte("123")))
	r.await("RST 1 PROTOCOL_ERROR")
	r.request(1, true, "x", "y")
	r.request(3, false, ":method", "POST", ":scheme", "https", ":path", "/panic", ":authority", "a")
	r.await("RST 3 INTERNAL_ERROR")
	r.request(3, true, "x", "y")
	for _, id := range []uint32{5, 7, 9} {
		r.post(id)
	}
	r.await("RST 9 PROTOCOL_ERROR")
	r.request(9, true, "x", "y")
	r.request(1, true, "x", "y")
	r.never("GOAWAY 9 PROTOCOL_ERROR", "RST 1 STREAM_CLOSED", "RST 9 STREAM_CLOSED")
}

// shutdownConn is a connection that shuts the server down when the server uses the connection for the first
// time.
type shutdownConn struct {
	net.Conn
	shutdown func()
}

func (c *shutdownConn) SetDeadline(at time.Time) error {
	if c.shutdown != nil {
		c.shutdown()
		c.shutdown = nil
	}
	return c.Conn.SetDeadline(at)
}

// TestShutdownBeforePreface checks that SETTINGS precede GOAWAY if the server shuts down when the connection begins.
func TestShutdownBeforePreface(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	srv, done := newServer(), make(chan struct{})
	go func() {
		defer close(done)
		srv.serve(t.Context(), &http.Server{ErrorLog: testLog(t)}, &shutdownConn{server, srv.shutdown}, &tls.ConnectionState{Version: tls.VersionTLS13}, http.HandlerFunc(forbid))
	}()
	var got []h2.FrameType
	frames := h2.NewFramer(nil, client)
	for {
		f, err := frames.ReadFrame()
		if err != nil {
			break
		}
		if got = append(got, f.Header().Type); f.Header().Type == h2.FrameGoAway {
			break
		}
	}
	_ = client.Close()
	<-done
	if len(got) < 2 || got[0] != h2.FrameSettings || got[len(got)-1] != h2.FrameGoAway {
		t.Errorf("the server sent %v, want SETTINGS first and GOAWAY", got)
	}
}
