package http2

import (
	"net/http"
	"strconv"
	"testing"
)

// complete responds with a body of size bytes and a Content-Length.
func complete(w http.ResponseWriter, size int) {
	w.Header().Set("Content-Length", strconv.Itoa(size))
	_, _ = w.Write(make([]byte, size))
}

// TestOneWrite checks that a large response with a Content-Length is sent with a single write,
// including END_STREAM.
func TestOneWrite(t *testing.T) {
	t.Parallel()
	const size = 2 * bodyBufferSize
	r := connect(t, func(w http.ResponseWriter, _ *http.Request) { complete(w, size) }, nil)
	r.writes.n.Store(0)
	r.request(1, true)
	r.await("DATA 1 8192")
	r.await("DATA 1 0 end")
	if n := r.writes.n.Load(); n != 1 {
		t.Errorf("the response took %d writes", n)
	}
}

// TestDeferredPart checks that Flush sends the last bytes of a body with a declared length while the handler is
// still running, and that trailers can follow.
func TestDeferredPart(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	r := connect(t, func(w http.ResponseWriter, _ *http.Request) {
		complete(w, 2*bodyBufferSize)
		flush(w)
		<-goOn
		w.Header().Set(http.TrailerPrefix+"Sum", "1")
	}, nil)
	r.request(1, true)
	r.await("DATA 1 8192")
	close(goOn)
	r.await("HEADERS 1  end")
}

// TestInformational checks that an informational status is sent before the response.
func TestInformational(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	r := connect(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		<-goOn
	}, nil)
	r.request(1, true)
	r.await("HEADERS 1 103")
	close(goOn)
	r.await("HEADERS 1 200 end")
}
