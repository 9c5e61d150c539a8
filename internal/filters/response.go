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

// response is the http.ResponseWriter with which filters wrap the server's. Each request has only
// one. It records the status, and sends a request's warnings with the header. Handlers access the
// wrapped writer with Flush, Hijack and http.ResponseController.
type response struct {
	http.ResponseWriter
	ctx     context.Context // the request's, once it has been parsed
	status  int             // 0 until the header is written
	size    int64           // bytes of the body
	started atomic.Int32    // status, for goroutines other than the handler's
	guard   *guard          // of a request with a deadline
	// onStart is called once when the header is written; may be nil.
	onStart func()
	// begun are the filters to end after the request, and detached is the function that continues
	// the response after the handler. Recover ends the filters after detached has ended.
	begun    []ender
	detached func() (done bool)
}

// ender is a filter that must be ended after a request.
type ender interface {
	// end is called when the request has been served. panicked is the reason if the handler
	// panicked.
	end(r *response, panicked any)
}

// atEnd registers e to be ended when the request has been served: after the handler has returned
// and its detached function has ended. Filters end in reverse order.
func (r *response) atEnd(e ender) {
	if r.begun == nil {
		r.begun = make([]ender, 0, usuallyBegun)
	}
	r.begun = append(r.begun, e)
}

// usuallyBegun is the usual number of filters to end per request, with audit events.
const usuallyBegun = 4

// end ends the registered filters.
func (r *response) end(panicked any) {
	for _, e := range slices.Backward(r.begun) {
		e.end(r, panicked)
	}
	r.begun = nil
}

// detacher is a ResponseWriter with a handler that can return before the response is complete.
// Package http2 implements it.
type detacher interface {
	Detach(do func() (done bool))
	Resume()
	HandOff()
}

// Detach registers do to continue the response after the handler has returned, with the contexts of
// the request. do is called again after each Resume, and when the request's context ends, until it
// returns true. Detach returns false if the writer does not support this; the handler must then
// continue itself. The header must have been written.
func (r *response) Detach(do func() (done bool)) bool {
	if _, ok := r.ResponseWriter.(detacher); !ok || r.guard != nil {
		return false
	}
	r.detached = do
	return true
}

// Resume schedules a call of the detached function. It does not block, and is safe for concurrent
// use.
func (r *response) Resume() { r.ResponseWriter.(detacher).Resume() }

// HandOff is called by the detached function before it may block. Other responses on the connection
// then continue without it.
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

// start records that the response has started.
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

// sender is a ResponseWriter that writes and flushes in a single call. Package http2 implements it.
type sender interface{ Send(p []byte) error }

// Send writes and flushes p.
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

// FlushError implements flushing for http.ResponseController.
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

// Unwrap returns the wrapped writer for http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Limits of warnings in a response header, in runes. If all warnings together are longer than
// maxWarnings, each is truncated to maxWarning.
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
