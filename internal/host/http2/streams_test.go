package http2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	h2 "golang.org/x/net/http2"
)

// TestSendWindow checks that the server neither sends nor buffers more than the client's window.
func TestSendWindow(t *testing.T) {
	t.Parallel()
	wrote := make(chan error, 1)
	r := connect(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/small" {
			hello(w, r)
			return
		}
		_, err := w.Write(bytes.Repeat([]byte("x"), 1<<20))
		wrote <- err
	}, nil)
	r.request(1, true)
	got := 0
	count := func(s string) {
		var n int
		if _, err := fmt.Sscanf(s, "DATA 1 %d", &n); err == nil {
			got += n
		}
	}
	r.awaitAfter("DATA 1 35", count)
	if got += 35; got != minWindow {
		t.Errorf("got %d bytes, want %d", got, minWindow)
	}
	// The connection's window is also exhausted. After its extension, only the stream's own window blocks.
	r.ok(r.frames.WriteWindowUpdate(0, 1<<20))
	r.request(3, true, ":method", "GET", ":scheme", "https", ":path", "/small")
	r.awaitAfter("DATA 3 5 end", count)
	r.never("DATA 1 1")
	r.ok(r.frames.WriteWindowUpdate(1, 1000))
	r.await("DATA 1 1000")
	r.ok(r.frames.WriteRSTStream(1, h2.ErrCodeCancel))
	if err := <-wrote; !errors.Is(err, errStreamReset) {
		t.Errorf("Write returned %v, want %v", err, errStreamReset)
	}
}

// TestReceiveWindow checks that the window is extended only by the data that the handler has read.
func TestReceiveWindow(t *testing.T) {
	t.Parallel()
	const total = 5 << 20
	r := connect(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n, err)
	}, func(s *http.Server) {
		s.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 100_000, MaxReceiveBufferPerConnection: 150_000}
	})
	r.post(1)
	stream, conn := 100_000, 150_000
	for sent := 0; sent < total; {
		n := min(stream, conn, total-sent, 16<<10)
		if n > 0 {
			r.ok(r.frames.WriteDataPadded(1, sent+n == total, make([]byte, n), nil))
			sent, stream, conn = sent+n, stream-n, conn-n
			continue
		}
		got := <-r.got
		var id, more int
		if _, err := fmt.Sscanf(got, "WINDOW_UPDATE %d %d", &id, &more); err == nil {
			if id == 0 {
				conn += more
			} else {
				stream += more
			}
		}
	}
	r.await("HEADERS 1 200")
}

// TestUnreadBodies checks that unread request bodies do not exhaust the connection's window.
func TestUnreadBodies(t *testing.T) {
	t.Parallel()
	r := connect(t, hello, func(s *http.Server) { s.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerConnection: minWindow} })
	conn := minWindow
	for i := range uint32(50) {
		for conn < 16<<10 {
			var more int
			if _, err := fmt.Sscanf(<-r.got, "WINDOW_UPDATE 0 %d", &more); err == nil {
				conn += more
			}
		}
		r.post(2*i + 1)
		r.ok(r.frames.WriteData(2*i+1, true, make([]byte, 16<<10)))
		conn -= 16 << 10
		r.awaitAfter(fmt.Sprintf("DATA %d 5 end", 2*i+1), func(got string) {
			var more int
			if _, err := fmt.Sscanf(got, "WINDOW_UPDATE 0 %d", &more); err == nil {
				conn += more
			}
		})
	}
}

// TestShutdown checks that open streams complete and new streams are ignored.
func TestShutdown(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r := connect(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-release
		hello(w, r)
	}, nil)
	r.request(1, true)
	r.await("HEADERS 1 200")
	r.srv.shutdown()
	r.await("GOAWAY 1 NO_ERROR")
	r.request(3, true)
	r.never("HEADERS 3 200")
	close(release)
	r.await("DATA 1 5 end")
	r.await("")
}

// TestResetEndsContext checks that a reset by the client cancels the context of the request.
func TestResetEndsContext(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 1)
	r := connect(t, func(w http.ResponseWriter, r *http.Request) {
		untilGone(w, r)
		_, _ = io.WriteString(w, "x")
		failed <- http.NewResponseController(w).Flush()
	}, nil)
	r.request(1, true)
	r.await("HEADERS 1 200")
	r.ok(r.frames.WriteRSTStream(1, h2.ErrCodeCancel))
	if err := <-failed; !errors.Is(err, errStreamReset) {
		t.Errorf("Flush: %v", err)
	}
}
