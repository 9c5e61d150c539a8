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

// Upgrades serves requests that ask to upgrade the connection on goroutines of their own.
// Once a handler has taken over the connection, net/http's goroutine ends, and with it the
// 14 KiB of buffers that it would keep for as long as the handler runs. It is the first
// filter: all others see one request from its beginning to its end.
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
	} else if reason := u.await(w, r); reason != nil {
		panic(reason)
	}
}

// await returns when the handler has taken over the connection, or has returned, with
// what it has panicked for. The request's context ends with the client's connection, as
// net/http's does, but not with its goroutine.
func (u *upgrades) await(w http.ResponseWriter, r *http.Request) (reason any) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	original := r.Context()
	stop := context.AfterFunc(original, func() { cancel(context.Cause(original)) })
	defer stop()
	response := &upgradable{over: make(chan struct{})}
	response.mu.writer = w
	go u.serve(response, r.WithContext(ctx), cancel)
	<-response.over
	return response.reason
}

func (u *upgrades) serve(response *upgradable, r *http.Request, cancel context.CancelCauseFunc) {
	defer cancel(nil)
	defer response.returned(u.logger)
	u.next.ServeHTTP(response, r)
}

// upgradable is the response to a request that asks to upgrade the connection.
type upgradable struct {
	over   chan struct{} // closed when net/http's goroutine is not needed any more
	reason any           // what the handler has panicked for until then
	mu     struct {
		sync.Mutex
		writer http.ResponseWriter // net/http's, as long as the connection is its own
		header http.Header         // afterwards
	}
}

// returned is deferred to the end of the handler.
func (u *upgradable) returned(logger *slog.Logger) {
	reason := recover()
	if u.writer() != nil {
		u.reason = reason
		close(u.over)
	} else if reason != nil && reason != http.ErrAbortHandler {
		logger.Error("handler of an upgraded connection panicked", "panic", reason, "stack", string(debug.Stack()))
	}
}

// writer returns net/http's; nil once the connection is the handler's.
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

// Unwrap is what http.ResponseController looks for.
func (u *upgradable) Unwrap() http.ResponseWriter { return u.writer() }

// Hijack implements http.Hijacker. The buffers are small, and hold what the client has sent
// already: net/http's are gone when this has returned.
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
	_, _ = reader.Peek(len(early)) // so that it is known to be there
	u.mu.header, u.mu.writer = u.mu.writer.Header(), nil
	close(u.over)
	return conn, bufio.NewReadWriter(reader, bufio.NewWriterSize(conn, size)), nil
}
