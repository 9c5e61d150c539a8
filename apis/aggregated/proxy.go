package aggregated

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"mainstay.dev/mainstay/egress"
	"mainstay.dev/mainstay/request"
)

// documentTimeout bounds requests for discovery and OpenAPI documents: clients
// fetch those of all servers, one of which may hang.
const documentTimeout = 5 * time.Second

// ServeHTTP proxies a request for the user in its context. Errors are plain text,
// as kube-apiserver's: clients wrap it in a message of their own.
func (r *registration) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	user := request.UserFrom(in.Context())
	switch {
	case !r.available:
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	case r.server.err != nil:
		http.Error(w, r.server.err.Error(), http.StatusInternalServerError)
		return
	case user == nil:
		http.Error(w, "missing user", http.StatusInternalServerError)
		return
	}
	request.WatchInitialized(in.Context()) // what a watch costs from here on, it costs the other server
	r.server.forward(w, in, user)
}

// forward proxies a request to the server.
func (s *server) forward(w http.ResponseWriter, in *http.Request, user *request.User) {
	parent := in.Context()
	ctx, transport, established := parent, s.transport, func() {}
	if isUpgrade(in) {
		transport = s.upgradeTransport
		var cancel context.CancelFunc
		ctx, established, cancel = s.source.tunnelContext(parent)
		defer cancel()
	} else if info := request.InfoFrom(parent); info != nil && !info.IsResource {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(parent, documentTimeout)
		defer cancel()
	}
	proxy := httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { s.rewrite(r, user) },
		Transport:     transport,
		FlushInterval: -1, // for watches
		ModifyResponse: func(response *http.Response) error {
			if response.StatusCode == http.StatusSwitchingProtocols {
				established()
			}
			s.checkResponse(w, response)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { s.fail(w, parent, err) },
		BufferPool:   &s.source.buffers,
		ErrorLog:     log.New(&proxyLog{ctx: parent, logger: s.source.logger}, "", 0),
	}
	defer recoverServerAbort(ctx)
	proxy.ServeHTTP(w, in.WithContext(ctx))
}

// tunnelContext returns the context of a request that upgrades the connection: it
// ends with parent until established is called, and from then on with cancel or
// Config.Stopping.
func (s *Source) tunnelContext(parent context.Context) (ctx context.Context, established func(), cancel context.CancelFunc) {
	ctx, end := context.WithCancel(context.WithoutCancel(parent))
	stopParent := context.AfterFunc(parent, end)
	stopStopping := context.AfterFunc(s.config.Stopping, end)
	return ctx, func() { stopParent() }, func() { stopParent(); stopStopping(); end() }
}

// rewrite sets the URL and the headers of the outgoing request.
func (s *server) rewrite(r *httputil.ProxyRequest, user *request.User) {
	// The path is the decoded one that was authorized, encoded again.
	r.Out.URL = &url.URL{Scheme: "https", Host: s.base.Host, Path: r.In.URL.Path, RawQuery: r.In.URL.Query().Encode()}
	r.Out.Host = s.base.Host
	if before := r.In.Header["X-Forwarded-For"]; len(before) > 0 {
		r.Out.Header["X-Forwarded-For"] = before
	}
	r.SetXForwarded()
	r.Out.Header.Set("X-Forwarded-Uri", r.In.URL.Path)
	if id := request.AuditID(r.In.Context()); id != "" {
		r.Out.Header.Set("Audit-Id", id)
	}
	setIdentity(r.Out.Header, identityOf(user))
}

// redirectBlocked is the body of the response in place of a redirect.
const redirectBlocked = "the backend attempted to redirect this request, which is not permitted"

// checkResponse replaces redirects by an error, unless Config.PassRedirects: a
// client that followed one would send its credentials to a host of the server's
// choice.
func (s *server) checkResponse(w http.ResponseWriter, response *http.Response) {
	response.Header.Del("Audit-Id") // this server's own is set already
	for name := range response.Header {
		w.Header().Del(name) // the server's headers replace those of the filters
	}
	code := response.StatusCode
	if s.source.config.PassRedirects || code < 300 || code > 399 || response.Header.Get("Location") == "" {
		return
	}
	_ = response.Body.Close()
	response.StatusCode, response.Status = http.StatusBadGateway, "502 Bad Gateway"
	response.Header = http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
	response.Body = io.NopCloser(strings.NewReader(redirectBlocked))
	response.ContentLength = int64(len(redirectBlocked))
}

// fail writes the response to a request that could not be proxied. For one whose
// context has ended the filters write it.
func (s *server) fail(w http.ResponseWriter, parent context.Context, err error) {
	if parent.Err() != nil {
		return
	}
	s.suspect()
	s.source.logger.LogAttrs(parent, slog.LevelDebug, "an aggregated server did not answer",
		slog.String("service", s.address.service.String()), slog.Any("err", err))
	if unresolved := (*egress.ResolveError)(nil); errors.As(err, &unresolved) {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	http.Error(w, "error trying to reach service: "+err.Error(), http.StatusServiceUnavailable)
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

func isUpgrade(r *http.Request) bool {
	for _, value := range r.Header.Values("Connection") {
		for token := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
				return true
			}
		}
	}
	return false
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

// proxyLog logs what the reverse proxy logs, mostly aborted responses, at debug
// level.
type proxyLog struct {
	ctx    context.Context
	logger *slog.Logger
}

func (l *proxyLog) Write(line []byte) (int, error) {
	l.logger.LogAttrs(l.ctx, slog.LevelDebug, "proxy", slog.String("err", string(bytes.TrimSpace(line))))
	return len(line), nil
}
