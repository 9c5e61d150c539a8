// Package proxy forwards requests and upgraded connections to other servers, which are aggregated servers,
// nodes, pods and services. Its callers select the server and authorize the request.
package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/telemetry/tracing"
)

// Proxy forwards requests. The zero value is ready for use; the fields must not be modified after
// the first request. It is safe for concurrent use. One Proxy per control plane lets all requests
// share its buffers.
type Proxy struct {
	// When Stopping is canceled, the proxy closes upgraded connections. If it is nil, they are closed only by
	// their ends.
	Stopping context.Context
	Logger   *slog.Logger // nil disables logging
	// MaxBytesPerSecond is the maximum rate in each direction of an upgraded connection, in bytes per second; 0
	// means no limit.
	MaxBytesPerSecond int64

	buffers buffers
}

// Backend is the target of one request.
type Backend struct {
	// Transport sends the request. It must use HTTP/1.1 for requests that upgrade the connection.
	Transport http.RoundTripper
	// Rewrite sets the URL of the outgoing request, and may change its header. The X-Forwarded
	// headers are already set.
	Rewrite func(*httputil.ProxyRequest)
	// ModifyResponse checks and may modify the response. If it returns an error, the error is passed to
	// OnError, and the response is not sent. nil forwards all responses unchanged.
	ModifyResponse func(*http.Response) error
	// OnError writes the response if the backend sent none, or if ModifyResponse returned an error. If the
	// context of the request was canceled by a filter, the filter writes the response, and OnError must not
	// write one.
	OnError func(err error)
}

// Serve forwards a request and copies the response or, after an upgrade, the data of the connection. It blocks
// until everything is copied. The context of in may end before the context of the client's request.
func (p *Proxy) Serve(w http.ResponseWriter, in *http.Request, backend *Backend) {
	if !IsUpgrade(in) {
		p.forward(w, in, backend, backend.ModifyResponse)
		return
	}
	to := p.upgradeBackend(w, in, backend)
	if to == nil {
		return
	}
	if client := upgradeClient(w, in, backend, to); client != nil {
		p.Join(client, to.ReadWriteCloser)
	}
}

// forward forwards a request. modify is called with each response and may be nil. If it returns errUpgraded,
// OnError is not called.
func (p *Proxy) forward(w http.ResponseWriter, in *http.Request, backend *Backend, modify func(*http.Response) error) {
	ctx := in.Context()
	reverse := httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { setForwardedHeaders(r); backend.Rewrite(r) },
		Transport:     backend.Transport,
		FlushInterval: -1, // for watches
		ModifyResponse: func(response *http.Response) error {
			if err := checkStatus(response); err != nil || modify == nil {
				return err
			}
			return modify(response)
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			if err != errUpgraded {
				backend.OnError(err)
			}
		},
		BufferPool: &p.buffers,
		ErrorLog:   log.New(&proxyLog{ctx: ctx, logger: p.logger()}, "", 0),
	}
	defer recoverServerAbort(ctx)
	reverse.ServeHTTP(w, in)
}

// checkStatus rejects status codes that http.ResponseWriter does not accept.
func checkStatus(response *http.Response) error {
	if response.StatusCode < 100 || response.StatusCode > 999 {
		return fmt.Errorf("backend responded with invalid status code %03d", response.StatusCode)
	}
	return nil
}

func (p *Proxy) logger() *slog.Logger {
	if p.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return p.Logger
}

// setForwardedHeaders sets the headers for the audit ID, the trace context and X-Forwarded. It keeps the
// X-Forwarded-For values of earlier proxies.
func setForwardedHeaders(r *httputil.ProxyRequest) {
	if before := r.In.Header["X-Forwarded-For"]; len(before) > 0 {
		r.Out.Header["X-Forwarded-For"] = before
	}
	r.SetXForwarded()
	tracing.Inject(r.In.Context(), r.Out.Header)
	if id := request.AuditID(r.In.Context()); id != "" {
		r.Out.Header.Set("Audit-Id", id)
	}
}

// OnStop calls f in its own goroutine when upgraded connections must be closed. forget cancels the
// registration; it returns false if f was already started.
func (p *Proxy) OnStop(f func()) (forget func() bool) {
	if p.Stopping == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(p.Stopping, f)
}

// recoverServerAbort recovers from http.ErrAbortHandler if this server has canceled the request, for example
// a watch during shutdown, so that the response ends normally. Other incomplete responses stay aborted.
func recoverServerAbort(ctx context.Context) {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return
	}
	if reason := recover(); reason != nil && reason != http.ErrAbortHandler {
		panic(reason)
	}
}

// IsUpgrade reports whether the request has the Connection header option "upgrade".
func IsUpgrade(r *http.Request) bool {
	for _, value := range r.Header.Values("Connection") {
		for token := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
				return true
			}
		}
	}
	return false
}

// IsRedirect reports whether the response is a redirect with a Location header. Callers must reject redirects,
// because following them would send credentials to another server.
func IsRedirect(response *http.Response) bool {
	return response.StatusCode >= 300 && response.StatusCode <= 399 && response.Header.Get("Location") != ""
}

// buffers is the httputil.BufferPool of a Proxy.
type buffers struct{ pool sync.Pool }

// bufferSize is the size of pooled buffers, in bytes.
const bufferSize = 32 << 10

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if kept, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return kept[:]
	}
	return make([]byte, bufferSize)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) { b.pool.Put((*[bufferSize]byte)(buffer)) }

// proxyLog writes the log of the reverse proxy, mostly aborted responses, at debug level.
type proxyLog struct {
	ctx    context.Context
	logger *slog.Logger
}

func (l *proxyLog) Write(line []byte) (int, error) {
	l.logger.LogAttrs(l.ctx, slog.LevelDebug, "proxy", slog.String("err", string(bytes.TrimSpace(line))))
	return len(line), nil
}
