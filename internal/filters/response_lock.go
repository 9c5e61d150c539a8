package filters

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"
	"sync"
)

// responseLock allows a goroutine other than the handler's to respond to a request. It serializes the two
// goroutines' use of the http.ResponseWriter. After the other goroutine has responded, writes by the handler
// fail with http.ErrHandlerTimeout.
type responseLock struct {
	mu sync.Mutex
	// replaced is true after another goroutine has responded to the request.
	replaced bool
	// separate is true if the handler uses a separate header map until it writes the header. A
	// separate map is needed because a handler may modify its header map at any time, without a
	// method call that could acquire the lock.
	separate bool
	header   http.Header
}

// responder is a ResponseWriter that can send a complete response, with a separate header, while
// the handler is running. The ResponseWriter of package http2 implements it.
type responder interface {
	Answer(status int, header http.Header, body []byte) error
}

// share allows another goroutine to respond to the request.
func (r *response) share(l *responseLock) {
	_, ok := r.ResponseWriter.(responder)
	l.separate = !ok
	r.lock = l
}

// acquire locks the response for the handler. It returns false, without locking, if another
// goroutine has responded.
func (r *response) acquire() bool {
	if r.lock == nil {
		return true
	}
	r.lock.mu.Lock()
	if r.lock.replaced {
		r.lock.mu.Unlock()
		return false
	}
	return true
}

func (r *response) release() {
	if r.lock != nil {
		r.lock.mu.Unlock()
	}
}

// headerLocked returns the header map that the handler uses.
func (r *response) headerLocked() http.Header {
	l := r.lock
	if l == nil || !l.replaced && (!l.separate || r.status != 0) {
		return r.ResponseWriter.Header()
	}
	if l.header == nil {
		if l.header = (http.Header{}); !l.replaced {
			maps.Copy(l.header, r.ResponseWriter.Header())
		}
	}
	return l.header
}

// publishHeaderLocked copies the handler's header to the response.
func (r *response) publishHeaderLocked() {
	if r.lock == nil || r.lock.header == nil || r.status != 0 {
		return
	}
	header := r.ResponseWriter.Header()
	clear(header)
	maps.Copy(header, r.lock.header)
}

// respondInstead sends a complete response in place of the handler. It returns false if the handler
// has already started a response.
func (r *response) respondInstead(a *bufferedResponse) bool {
	r.lock.mu.Lock()
	defer r.lock.mu.Unlock()
	if r.status != 0 {
		return false
	}
	r.lock.replaced = true
	r.status, r.size = a.status, int64(a.body.Len())
	r.atomicStatus.Store(int32(a.status))
	// Errors are ignored, because they mean that the client has disconnected.
	if w, ok := r.ResponseWriter.(responder); ok {
		_ = w.Answer(a.status, a.header, a.body.Bytes())
		return true
	}
	header := r.ResponseWriter.Header()
	maps.Copy(header, a.header)
	// Content-Length makes the response complete for the client. The connection is closed, because the next
	// request on the connection would have to wait for the handler.
	header.Set("Content-Length", strconv.Itoa(a.body.Len()))
	header.Set("Connection", "close")
	r.ResponseWriter.WriteHeader(a.status)
	_, _ = r.ResponseWriter.Write(a.body.Bytes())
	_ = http.NewResponseController(r.ResponseWriter).Flush()
	return true
}

// bufferedResponse is a response in memory.
type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *bufferedResponse) Header() http.Header { return a.header }

func (a *bufferedResponse) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *bufferedResponse) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}
