// Package proxy forwards requests and upgraded connections to other servers: aggregated servers,
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
)

// Proxy passes requests on. It is safe for concurrent use; all requests of a control
// plane share one, and its buffers.
type Proxy struct {
	// Stopping ends upgraded connections when it is done; nil never does.
	Stopping context.Context
	Logger   *slog.Logger // nil discards

	buffers buffers
}

// Backend is the target of a request.
type Backend struct {
	// Transport sends the request. It must speak HTTP/1.1 where the request upgrades
	// the connection.
	Transport http.RoundTripper
	// Rewrite sets the URL of the outgoing request, and may change its header. The
	// X-Forwarded headers are set already.
	Rewrite func(*httputil.ProxyRequest)
	// Check looks over the response, and may change it; its error is passed to Fail.
	// nil passes on all responses as they are.
	Check func(*http.Response) error
	// Fail responds to a request if the backend sent no response. The filters respond to requests
	// with a context that they have canceled.
	Fail func(err error)
}

// Serve forwards a request and copies the response, or the data of an upgraded connection. The
// context may end before that of the client's request.
func (p *Proxy) Serve(w http.ResponseWriter, in *http.Request, backend *Backend) {
	if !IsUpgrade(in) {
		p.pass(w, in, backend, backend.Check)
		return
	}
	to := p.askToSwitch(w, in, backend)
	if to == nil {
		return
	}
	if client := switchClient(w, in, backend, to); client != nil {
		p.Join(client, to.ReadWriteCloser)
	}
}

// pass forwards a request. If the error of check is errSwitched, it is not reported.
func (p *Proxy) pass(w http.ResponseWriter, in *http.Request, backend *Backend, check func(*http.Response) error) {
	ctx := in.Context()
	reverse := httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { forwarded(r); backend.Rewrite(r) },
		Transport:     backend.Transport,
		FlushInterval: -1, // for watches
		ModifyResponse: func(response *http.Response) error {
			if err := checkStatus(response); err != nil || check == nil {
				return err
			}
			return check(response)
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			if err != errSwitched {
				backend.Fail(err)
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

// forwarded sets the audit ID and appends to the X-Forwarded headers of earlier proxies.
func forwarded(r *httputil.ProxyRequest) {
	if before := r.In.Header["X-Forwarded-For"]; len(before) > 0 {
		r.Out.Header["X-Forwarded-For"] = before
	}
	r.SetXForwarded()
	if id := request.AuditID(r.In.Context()); id != "" {
		r.Out.Header.Set("Audit-Id", id)
	}
}

// OnStop has f called, on a goroutine of its own, when upgraded connections are to
// end. forget has it not be called any more.
func (p *Proxy) OnStop(f func()) (forget func() bool) {
	if p.Stopping == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(p.Stopping, f)
}

// recoverServerAbort recovers from http.ErrAbortHandler if this server has ended
// the request, as it does with watches when it stops, so that the response ends
// properly. Other responses that break off stay aborted.
func recoverServerAbort(ctx context.Context) {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return
	}
	if reason := recover(); reason != nil && reason != http.ErrAbortHandler {
		panic(reason)
	}
}

// IsUpgrade reports whether a request requests a connection upgrade.
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

// IsRedirect reports whether a response sends its client elsewhere, and its
// credentials with it.
func IsRedirect(response *http.Response) bool {
	return response.StatusCode >= 300 && response.StatusCode <= 399 && response.Header.Get("Location") != ""
}

// buffers is the httputil.BufferPool of the proxies.
type buffers struct{ pool sync.Pool }

// bufferSize is in bytes.
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
