package filters

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"unicode/utf8"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"mainstay.dev/mainstay/internal/request"
)

// response is the one http.ResponseWriter that filters put around the server's
// own. It records the status, and sends a request's warnings with the
// header. Handlers reach what lies below it through Flush, Hijack and
// http.ResponseController.
type response struct {
	http.ResponseWriter
	ctx     context.Context // the request's, once it has been parsed
	status  int             // 0 until the header is written
	size    int64           // bytes of the body
	started atomic.Int32    // status, for other goroutines than the handler's
	guard   *guard          // of a request with a deadline
	// onStart is called once, when the header is written; nil: nobody waits for that.
	onStart func()
	// begun is what filters have begun for the request, and detached what its handler has
	// left to do. Recover ends the one after the other.
	begun    []ender
	detached func() (done bool)
}

// ender is what a filter has begun for a request.
type ender interface {
	// end ends it when the request has been served. panicked is the reason, if the handler
	// has not returned but panicked.
	end(r *response, panicked any)
}

// atEnd has e end when the request has been served: when its handler has returned, and
// what that has detached. What was begun last ends first.
func (r *response) atEnd(e ender) {
	if r.begun == nil {
		r.begun = make([]ender, 0, usuallyBegun)
	}
	r.begun = append(r.begun, e)
}

// usuallyBegun is how much filters usually begin for a request, with audit events.
const usuallyBegun = 4

// end ends what filters have begun.
func (r *response) end(panicked any) {
	for _, e := range slices.Backward(r.begun) {
		e.end(r, panicked)
	}
	r.begun = nil
}

// detacher is a ResponseWriter whose handler can return before the response is complete:
// that of package http2.
type detacher interface {
	Detach(do func() (done bool))
	Resume()
	HandOff()
}

// Detach has do go on with the response once the handler has returned, with the contexts
// of the request: until it is true, do is called again after each Resume, and when the
// request's context ends. Detach is false where the handler must go on itself.
// The header must have been written.
func (r *response) Detach(do func() (done bool)) bool {
	if _, ok := r.ResponseWriter.(detacher); !ok || r.guard != nil {
		return false
	}
	r.detached = do
	return true
}

// Resume has what is detached be called. It does not wait, and is safe for concurrent
// use.
func (r *response) Resume() { r.ResponseWriter.(detacher).Resume() }

// HandOff tells, while what is detached runs, that it may wait now: other responses on the
// connection do not wait for it.
func (r *response) HandOff() { r.ResponseWriter.(detacher).HandOff() }

// wrap returns the response that is already around w, or puts one around it.
func wrap(w http.ResponseWriter) *response {
	if r, ok := w.(*response); ok {
		return r
	}
	return &response{ResponseWriter: w}
}

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header {
	if r.guard == nil {
		return r.ResponseWriter.Header()
	}
	r.guard.mu.Lock()
	defer r.guard.mu.Unlock()
	return r.headerLocked()
}

func (r *response) WriteHeader(status int) {
	if !r.lock() {
		return
	}
	defer r.unlock()
	r.writeHeaderLocked(status)
}

func (r *response) writeHeaderLocked(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		if r.status == 0 {
			r.writeWarnings(r.headerLocked())
			r.publishHeaderLocked()
			r.start(status)
		}
	} else {
		r.publishHeaderLocked()
	}
	r.ResponseWriter.WriteHeader(status)
}

// start records that the response has begun.
func (r *response) start(status int) {
	r.status = status
	r.started.Store(int32(status))
	if r.onStart != nil {
		r.onStart()
	}
}

func (r *response) Write(p []byte) (int, error) {
	if !r.lock() {
		return 0, http.ErrHandlerTimeout
	}
	defer r.unlock()
	if r.status == 0 {
		r.writeHeaderLocked(http.StatusOK)
	}
	n, err := r.ResponseWriter.Write(p)
	r.size += int64(n)
	return n, err
}

// sender is a ResponseWriter that writes and flushes in one: that of package http2.
type sender interface{ Send(p []byte) error }

// Send is Write and Flush.
func (r *response) Send(p []byte) error {
	inner, ok := r.ResponseWriter.(sender)
	if !ok || r.guard != nil || r.status == 0 {
		if _, err := r.Write(p); err != nil {
			return err
		}
		return r.FlushError()
	}
	err := inner.Send(p)
	if err == nil {
		r.size += int64(len(p))
	}
	return err
}

// Flush implements http.Flusher.
func (r *response) Flush() { _ = r.FlushError() }

// FlushError is what http.ResponseController looks for.
func (r *response) FlushError() error {
	if !r.lock() {
		return http.ErrHandlerTimeout
	}
	defer r.unlock()
	if r.status == 0 {
		r.writeHeaderLocked(http.StatusOK)
	}
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker; over HTTP/2 it returns http.ErrNotSupported.
func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if !r.lock() {
		return nil, nil, http.ErrHandlerTimeout
	}
	defer r.unlock()
	conn, buffer, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil && r.status == 0 {
		r.start(http.StatusSwitchingProtocols)
	}
	return conn, buffer, err
}

// Unwrap is what http.ResponseController looks for.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Limits of what warnings may take of a response's header: when all of them
// together are longer than maxWarnings, each is cut to maxWarning. In runes.
const (
	maxWarnings = 4 << 10
	maxWarning  = 256
)

func (r *response) writeWarnings(header http.Header) {
	if r.ctx == nil {
		return
	}
	texts := request.WarningsFrom(r.ctx)
	total := 0
	for _, text := range texts {
		total += utf8.RuneCountInString(text)
	}
	cut, sent := total > maxWarnings, 0
	for _, text := range texts {
		if cut {
			text = firstRunes(text, maxWarning)
			if sent += utf8.RuneCountInString(text); sent > maxWarnings {
				return
			}
		}
		// A text that cannot be a header value (control characters, no UTF-8)
		// is left out.
		value, err := utilnet.NewWarningHeader(299, "-", text)
		if err == nil && !slices.Contains(header["Warning"], value) {
			header.Add("Warning", value)
		}
	}
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
