package filters

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
)

// Upgrades returns a filter that serves requests with an Upgrade header on separate goroutines.
// Once a handler has hijacked the connection, net/http's goroutine ends and releases 14 KiB of
// buffers that it would otherwise retain while the handler runs. It must be the first filter, so
// that the other filters cover the complete request. logger receives panics of handlers after the
// hijack.
func Upgrades(logger *slog.Logger) Filter {
	return func(next http.Handler) http.Handler { return &upgrades{next, logger} }
}

type upgrades struct {
	next   http.Handler
	logger *slog.Logger
}

// ServeHTTP implements http.Handler.
func (u *upgrades) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.Header["Upgrade"] == nil {
		u.next.ServeHTTP(w, r)
	} else if reason := u.serveUpgrade(w, r); reason != nil {
		panic(reason)
	}
}

// serveUpgrade returns when the handler has hijacked the connection or has returned. reason is the
// value with which the handler panicked. As in net/http, the request's context ends when the client
// disconnects. It does not end when net/http's goroutine ends.
func (u *upgrades) serveUpgrade(w http.ResponseWriter, r *http.Request) (reason any) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	original := r.Context()
	stop := context.AfterFunc(original, func() { cancel(context.Cause(original)) })
	defer stop()
	response := &upgradable{done: make(chan struct{})}
	response.mu.writer = w
	go u.runHandler(response, r.WithContext(ctx), cancel)
	<-response.done
	return response.panicValue
}

func (u *upgrades) runHandler(response *upgradable, r *http.Request, cancel context.CancelCauseFunc) {
	defer cancel(nil)
	defer response.finish(u.logger)
	u.next.ServeHTTP(response, r)
}

// upgradable is the response to a request with an Upgrade header.
type upgradable struct {
	done       chan struct{} // closed when net/http's goroutine may return
	panicValue any           // the value with which the handler panicked before done was closed
	mu         struct {
		sync.Mutex
		writer http.ResponseWriter // net/http's writer; nil after Hijack
		header http.Header         // the header after Hijack
	}
}

// finish is deferred by the goroutine of the handler. It recovers from panics.
func (u *upgradable) finish(logger *slog.Logger) {
	reason := recover()
	if u.writer() != nil {
		u.panicValue = reason
		close(u.done)
	} else if reason != nil && reason != http.ErrAbortHandler {
		logger.Error("handler of an upgraded connection panicked", "panic", reason, "stack", string(debug.Stack()))
	}
}

// writer returns net/http's writer, or nil after Hijack.
func (u *upgradable) writer() http.ResponseWriter {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.mu.writer
}

// Header implements http.ResponseWriter.
func (u *upgradable) Header() http.Header {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mu.writer != nil {
		return u.mu.writer.Header()
	}
	return u.mu.header
}

// WriteHeader implements http.ResponseWriter.
func (u *upgradable) WriteHeader(status int) {
	if w := u.writer(); w != nil {
		w.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (u *upgradable) Write(p []byte) (int, error) {
	if w := u.writer(); w != nil {
		return w.Write(p)
	}
	return 0, http.ErrHijacked
}

// Unwrap returns net/http's writer for http.ResponseController, or nil after Hijack.
func (u *upgradable) Unwrap() http.ResponseWriter { return u.writer() }

// Hijack implements http.Hijacker. It returns small new buffers that contain the data already
// received, because net/http's buffers become invalid when its goroutine ends. A second call
// returns http.ErrHijacked.
func (u *upgradable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	const size = 512
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mu.writer == nil {
		return nil, nil, http.ErrHijacked
	}
	conn, buffered, err := http.NewResponseController(u.mu.writer).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, _ := buffered.Peek(buffered.Reader.Buffered())
	reader := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(early)), conn), max(size, len(early)))
	_, _ = reader.Peek(len(early)) // fills the reader's buffer, so that Buffered reports the early data
	u.mu.header, u.mu.writer = u.mu.writer.Header(), nil
	close(u.done)
	return conn, bufio.NewReadWriter(reader, bufio.NewWriterSize(conn, size)), nil
}
