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

// response is the http.ResponseWriter that filters share; each request has only one response. It
// records the status and sends the warnings of the request with the header. Handlers access the
// wrapped writer with Flush, Hijack and http.ResponseController.
type response struct {
	http.ResponseWriter
	ctx          context.Context // the context of the request; nil until RequestInfo has parsed it
	status       int             // 0 until the header is written
	size         int64           // bytes of the body
	atomicStatus atomic.Int32    // copy of status for goroutines other than the handler's
	lock         *responseLock   // nil for requests without a deadline
	// onStart is called once when the header is written; may be nil.
	onStart func()
	// cleanups run after the request, and detached is the function that continues the response
	// after the handler. Recover runs the cleanups after detached has returned true.
	cleanups []cleaner
	detached func() (done bool)
}

// cleaner releases the per-request state of a filter.
type cleaner interface {
	// cleanup is called once, when the request has been served. panicked is the value with which
	// the handler panicked, or nil.
	cleanup(r *response, panicked any)
}

// addCleanup registers c to be called when the request has been served, that is, after the handler
// has returned and its detached function, if any, has returned true. Cleanups run in reverse order.
func (r *response) addCleanup(c cleaner) {
	if r.cleanups == nil {
		r.cleanups = make([]cleaner, 0, initialCleanups)
	}
	r.cleanups = append(r.cleanups, c)
}

// initialCleanups is the initial capacity of response.cleanups. It is the usual number of cleanups
// of a request with auditing.
const initialCleanups = 4

// runCleanups runs and removes the registered cleanups.
func (r *response) runCleanups(panicked any) {
	for _, c := range slices.Backward(r.cleanups) {
		c.cleanup(r, panicked)
	}
	r.cleanups = nil
}

// detacher is a ResponseWriter whose handler can return before the response is complete. Package
// http2 implements it.
type detacher interface {
	Detach(do func() (done bool))
	Resume()
	HandOff()
}

// Detach registers do to continue the response after the handler has returned. do is called after
// each Resume, and when the request's context ends, until it returns true; calls are not
// concurrent. Detach returns false if the writer does not support this; the handler must then
// complete the response itself. The handler must have written the header before it calls Detach.
func (r *response) Detach(do func() (done bool)) bool {
	if _, ok := r.ResponseWriter.(detacher); !ok || r.lock != nil {
		return false
	}
	r.detached = do
	return true
}

// Resume schedules a call of the detached function. It does not block, and is safe for concurrent
// use. Detach must have returned true.
func (r *response) Resume() { r.ResponseWriter.(detacher).Resume() }

// HandOff must be called by the detached function before it blocks, so that other responses on the
// connection do not have to wait.
func (r *response) HandOff() { r.ResponseWriter.(detacher).HandOff() }

// wrap returns w if it is a response, or a new response that wraps w.
func wrap(w http.ResponseWriter) *response {
	if r, ok := w.(*response); ok {
		return r
	}
	return &response{ResponseWriter: w}
}

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header {
	if r.lock == nil {
		return r.ResponseWriter.Header()
	}
	r.lock.mu.Lock()
	defer r.lock.mu.Unlock()
	return r.headerLocked()
}

func (r *response) WriteHeader(status int) {
	if !r.acquire() {
		return
	}
	defer r.release()
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

// start records that the response has started.
func (r *response) start(status int) {
	r.status = status
	r.atomicStatus.Store(int32(status))
	if r.onStart != nil {
		r.onStart()
	}
}

func (r *response) Write(p []byte) (int, error) {
	if !r.acquire() {
		return 0, http.ErrHandlerTimeout
	}
	defer r.release()
	if r.status == 0 {
		r.writeHeaderLocked(http.StatusOK)
	}
	n, err := r.ResponseWriter.Write(p)
	r.size += int64(n)
	return n, err
}

// sender is a ResponseWriter that writes and flushes in a single call. Package http2 implements it.
type sender interface{ Send(p []byte) error }

// Send writes and flushes p. It does not retain p. It returns http.ErrHandlerTimeout after another
// goroutine has responded.
func (r *response) Send(p []byte) error {
	inner, ok := r.ResponseWriter.(sender)
	if !ok || r.lock != nil || r.status == 0 {
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

// FlushError implements flushing for http.ResponseController.
func (r *response) FlushError() error {
	if !r.acquire() {
		return http.ErrHandlerTimeout
	}
	defer r.release()
	if r.status == 0 {
		r.writeHeaderLocked(http.StatusOK)
	}
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker; over HTTP/2 it returns http.ErrNotSupported.
func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if !r.acquire() {
		return nil, nil, http.ErrHandlerTimeout
	}
	defer r.release()
	conn, buffer, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil && r.status == 0 {
		r.start(http.StatusSwitchingProtocols)
	}
	return conn, buffer, err
}

// Unwrap returns the wrapped writer for http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Limits on the warnings in a response header, in runes. If all warnings together exceed maxWarnings, each
// warning is truncated to maxWarning runes, and the warnings from the first one that would exceed maxWarnings
// in total are dropped.
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
		// Text that is not valid in a header (control characters, invalid UTF-8) is omitted.
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
