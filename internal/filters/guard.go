package filters

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"
	"sync"
)

// guard lets a goroutine other than the handler's answer a request. It serializes
// their use of the http.ResponseWriter; once the request is answered, writes of
// the handler fail with http.ErrHandlerTimeout.
type guard struct {
	mu sync.Mutex
	// over: the request has been answered in the handler's place.
	over bool
	// private: the handler has a header of its own until it writes it. A handler
	// may change the header at any time without a call that could be guarded.
	private bool
	own     http.Header
}

// answerer is a ResponseWriter that can complete a response while the handler is
// running, in a header of its own: that of package http2.
type answerer interface {
	Answer(status int, header http.Header, body []byte) error
}

// withGuard prepares a response to be answered by another goroutine.
func (r *response) withGuard(g *guard) {
	_, answers := r.ResponseWriter.(answerer)
	g.private = !answers
	r.guard = g
}

// lock locks the response for the handler. It is false, and the response is not
// locked, where the request has been answered.
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

// headerLocked returns the header that the handler sees.
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

// publishHeaderLocked makes the handler's header the response's.
func (r *response) publishHeaderLocked() {
	if r.guard == nil || r.guard.own == nil || r.status != 0 {
		return
	}
	header := r.ResponseWriter.Header()
	clear(header)
	maps.Copy(header, r.guard.own)
}

// answerFor sends a complete response in the handler's place. It is false where the
// handler has begun its own.
func (r *response) answerFor(a *reply) bool {
	r.guard.mu.Lock()
	defer r.guard.mu.Unlock()
	if r.status != 0 {
		return false
	}
	r.guard.over = true
	r.status, r.size = a.status, int64(a.body.Len())
	r.started.Store(int32(a.status))
	// The client has gone, if these fail.
	if w, ok := r.ResponseWriter.(answerer); ok {
		_ = w.Answer(a.status, a.header, a.body.Bytes())
		return true
	}
	header := r.ResponseWriter.Header()
	maps.Copy(header, a.header)
	// The client has all of it, and must not wait on this connection for what
	// the handler still does.
	header.Set("Content-Length", strconv.Itoa(a.body.Len()))
	header.Set("Connection", "close")
	r.ResponseWriter.WriteHeader(a.status)
	_, _ = r.ResponseWriter.Write(a.body.Bytes())
	_ = http.NewResponseController(r.ResponseWriter).Flush()
	return true
}

// reply is a response that is made before it is sent.
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
