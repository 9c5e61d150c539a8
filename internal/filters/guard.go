package filters

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"
	"sync"
)

// guard allows a goroutine other than the handler's to respond to a request. It serializes their
// use of the http.ResponseWriter. After the other goroutine has responded, writes of the handler
// fail with http.ErrHandlerTimeout.
type guard struct {
	mu sync.Mutex
	// over reports whether another goroutine has responded to the request.
	over bool
	// private reports whether the handler uses a separate header map until it writes the header.
	// The handler may modify the map at any time without a call that could be guarded.
	private bool
	own     http.Header
}

// answerer is a ResponseWriter that can complete a response with a separate header while the
// handler is running. Package http2 implements it.
type answerer interface {
	Answer(status int, header http.Header, body []byte) error
}

// withGuard allows another goroutine to respond to the request.
func (r *response) withGuard(g *guard) {
	_, answers := r.ResponseWriter.(answerer)
	g.private = !answers
	r.guard = g
}

// lock locks the response for the handler. It returns false, without locking, if another goroutine
// has responded.
func (r *response) lock() bool {
	if r.guard == nil {
		return true
	}
	r.guard.mu.Lock()
	if r.guard.over {
		r.guard.mu.Unlock()
		return false
	}
	return true
}

func (r *response) unlock() {
	if r.guard != nil {
		r.guard.mu.Unlock()
	}
}

// headerLocked returns the header map that the handler uses.
func (r *response) headerLocked() http.Header {
	g := r.guard
	if g == nil || !g.over && (!g.private || r.status != 0) {
		return r.ResponseWriter.Header()
	}
	if g.own == nil {
		if g.own = (http.Header{}); !g.over {
			maps.Copy(g.own, r.ResponseWriter.Header())
		}
	}
	return g.own
}

// publishHeaderLocked copies the handler's header to the response.
func (r *response) publishHeaderLocked() {
	if r.guard == nil || r.guard.own == nil || r.status != 0 {
		return
	}
	header := r.ResponseWriter.Header()
	clear(header)
	maps.Copy(header, r.guard.own)
}

// answerFor sends a complete response instead of the handler. It returns false if the handler has
// already started a response.
func (r *response) answerFor(a *reply) bool {
	r.guard.mu.Lock()
	defer r.guard.mu.Unlock()
	if r.status != 0 {
		return false
	}
	r.guard.over = true
	r.status, r.size = a.status, int64(a.body.Len())
	r.started.Store(int32(a.status))
	// Errors are ignored, because they mean that the client has disconnected.
	if w, ok := r.ResponseWriter.(answerer); ok {
		_ = w.Answer(a.status, a.header, a.body.Bytes())
		return true
	}
	header := r.ResponseWriter.Header()
	maps.Copy(header, a.header)
	// The response is complete. The connection is closed, because a further request on it would
	// have to wait for the handler.
	header.Set("Content-Length", strconv.Itoa(a.body.Len()))
	header.Set("Connection", "close")
	r.ResponseWriter.WriteHeader(a.status)
	_, _ = r.ResponseWriter.Write(a.body.Bytes())
	_ = http.NewResponseController(r.ResponseWriter).Flush()
	return true
}

// reply is a buffered response.
type reply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *reply) Header() http.Header { return a.header }

func (a *reply) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *reply) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}
