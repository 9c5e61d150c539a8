package http2

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// raw is a client that sends arbitrary frames over a pipe to its own server.
type raw struct {
	t      *testing.T
	net    net.Conn
	frames *h2.Framer
	block  bytes.Buffer
	enc    *hpack.Encoder
	got    chan string // the server's frames in short form; closed when the connection ends
	done   chan struct{}
	srv    *server
	writes *countedWrites // counts the server's writes
	// mayEnd permits the connection to end while the client writes.
	mayEnd bool
}

// silent starts a server, and returns a client that is connected but has neither sent nor read data.
func silent(t *testing.T, h http.HandlerFunc, change func(*http.Server)) *raw {
	t.Helper()
	hs := &http.Server{Handler: h, ErrorLog: testLog(t)}
	if change != nil {
		change(hs)
	}
	near, far := net.Pipe()
	r := &raw{t: t, net: near, frames: h2.NewFramer(near, near), got: make(chan string, 1000), done: make(chan struct{}), srv: newServer()}
	r.writes = &countedWrites{Conn: far}
	r.frames.AllowIllegalWrites = true
	r.enc = hpack.NewEncoder(&r.block)
	go func() {
		defer close(r.done)
		r.srv.serve(context.Background(), hs, r.writes, &tls.ConnectionState{Version: tls.VersionTLS13}, h)
	}()
	t.Cleanup(func() {
		_ = near.Close()
		<-r.done
	})
	return r
}

// connect is like silent, but also performs the HTTP/2 handshake and starts reading frames.
func connect(t *testing.T, h http.HandlerFunc, change func(*http.Server)) *raw {
	t.Helper()
	r := silent(t, h, change)
	r.hello()
	return r
}

func (r *raw) hello(settings ...h2.Setting) {
	r.t.Helper()
	go r.read() // returns when the connection ends
	r.preface()
	r.ok(r.frames.WriteSettings(settings...))
	r.ok(r.frames.WriteSettingsAck())
	r.await("SETTINGS ack")
}

func (r *raw) preface() {
	r.t.Helper()
	_, err := io.WriteString(r.net, h2.ClientPreface)
	r.ok(err)
}

func (r *raw) ok(err error) {
	r.t.Helper()
	if err != nil && !r.mayEnd {
		r.t.Fatal(err)
	}
}

// read sends the server's frames to got, in short form.
func (r *raw) read() {
	defer close(r.got)
	f := h2.NewFramer(nil, r.net)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		r.got <- short(frame)
	}
}

func short(frame h2.Frame) string {
	id := frame.Header().StreamID
	end := ""
	if frame.Header().Flags.Has(h2.FlagDataEndStream) {
		end = " end"
	}
	switch f := frame.(type) {
	case *h2.MetaHeadersFrame:
		return fmt.Sprintf("HEADERS %d %s%s", id, f.PseudoValue("status"), end)
	case *h2.DataFrame:
		return fmt.Sprintf("DATA %d %d%s", id, len(f.Data()), end)
	case *h2.RSTStreamFrame:
		return fmt.Sprintf("RST %d %v", id, f.ErrCode)
	case *h2.GoAwayFrame:
		return fmt.Sprintf("GOAWAY %d %v", f.LastStreamID, f.ErrCode)
	case *h2.WindowUpdateFrame:
		return fmt.Sprintf("WINDOW_UPDATE %d %d", id, f.Increment)
	case *h2.SettingsFrame:
		if f.IsAck() {
			return "SETTINGS ack"
		}
		return "SETTINGS"
	case *h2.PingFrame:
		return fmt.Sprintf("PING ack=%t", f.IsAck())
	}
	return frame.Header().Type.String()
}

// await reads frames until the server has sent want. "" waits for the end of the connection.
func (r *raw) await(want string) {
	r.t.Helper()
	r.awaitAfter(want, nil)
}

func (r *raw) awaitAfter(want string, each func(got string)) {
	r.t.Helper()
	limit := time.After(time.Minute)
	var before []string
	for {
		select {
		case got, ok := <-r.got:
			if !ok && want != "" {
				r.t.Fatalf("the connection ended before %q, after %q", want, before)
			}
			if got == want {
				return
			}
			if each != nil {
				each(got)
			}
			before = append(before, got)
		case <-limit:
			r.t.Fatalf("did not receive %q; received %q", want, before)
		}
	}
}

// never checks that the server sends none of the frames before it responds to a PING.
func (r *raw) never(unwanted ...string) {
	r.t.Helper()
	r.ok(r.frames.WritePing(false, [8]byte{1}))
	r.awaitAfter("PING ack=true", func(got string) {
		for _, not := range unwanted {
			if got == not {
				r.t.Errorf("got %q", got)
			}
		}
	})
}

// request opens a stream. Without fields, it sends a GET request. If end is true, the request has no body.
func (r *raw) request(id uint32, end bool, fields ...string) {
	r.t.Helper()
	if fields == nil {
		fields = []string{":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a"}
	}
	r.ok(r.frames.WriteHeaders(h2.HeadersFrameParam{StreamID: id, EndStream: end, EndHeaders: true, BlockFragment: r.encode(fields...)}))
}

// post opens a stream with a request body.
func (r *raw) post(id uint32, more ...string) {
	r.t.Helper()
	r.request(id, false, append([]string{":method", "POST", ":scheme", "https", ":path", "/", ":authority", "a"}, more...)...)
}

func (r *raw) encode(fields ...string) []byte {
	r.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = r.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return r.block.Bytes()
}

type countedWrites struct {
	net.Conn
	n atomic.Int64
}

func (c *countedWrites) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(p)
}
