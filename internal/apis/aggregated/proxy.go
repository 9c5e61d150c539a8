package aggregated

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/request"
)

// documentTimeout is the timeout of proxied requests for discovery and OpenAPI documents. Clients fetch the
// documents of all servers, and should not wait for a server that does not respond.
const documentTimeout = 5 * time.Second

// ServeHTTP proxies a request on behalf of the user in the context of the request. As in kube-apiserver, errors
// are plain text, which clients include in their own messages.
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
	request.WatchInitialized(in.Context()) // from here on, a watch only uses resources of the other server
	r.server.forward(w, in, user)
}

// forward proxies a request to the server.
func (s *server) forward(w http.ResponseWriter, in *http.Request, user *request.User) {
	parent := in.Context()
	var transport http.RoundTripper = s.transport
	if proxy.IsUpgrade(in) {
		transport = s.upgradeTransport
	} else if info := request.InfoFrom(parent); info != nil && !info.IsResource {
		ctx, cancel := context.WithTimeout(parent, documentTimeout)
		defer cancel()
		in = in.WithContext(ctx)
	}
	s.source.proxy.Serve(w, in, &proxy.Backend{
		Transport:      transport,
		Rewrite:        func(r *httputil.ProxyRequest) { s.rewrite(r, user) },
		ModifyResponse: func(response *http.Response) error { s.checkResponse(w, response); return nil },
		OnError:        func(err error) { s.fail(w, parent, err) },
	})
}

// rewrite sets the URL and the headers of the outgoing request, including the user.
func (s *server) rewrite(r *httputil.ProxyRequest, user *request.User) {
	// Authorization used the decoded path, so that path is encoded again and sent.
	r.Out.URL = &url.URL{Scheme: "https", Host: s.base.Host, Path: r.In.URL.Path, RawQuery: r.In.URL.Query().Encode()}
	r.Out.Host = s.base.Host
	r.Out.Header.Set("X-Forwarded-Uri", request.PathPrefix(r.In.Context())+r.In.URL.Path)
	proxy.SetUser(r.Out.Header, user)
}

// redirectBlocked is the body of the response that replaces a redirect.
const redirectBlocked = "the backend attempted to redirect this request, which is not permitted"

// checkResponse replaces redirects with an error, unless Config.PassRedirects is set. A client that follows a
// redirect would send its credentials to a host that the aggregated server selects.
func (s *server) checkResponse(w http.ResponseWriter, response *http.Response) {
	response.Header.Del("Audit-Id") // this server has already set its own Audit-Id
	for name := range response.Header {
		w.Header().Del(name) // the headers of the aggregated server replace headers that filters have set
	}
	if s.source.config.PassRedirects || !proxy.IsRedirect(response) {
		return
	}
	_ = response.Body.Close()
	response.StatusCode, response.Status = http.StatusBadGateway, "502 Bad Gateway"
	response.Header = http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
	response.Body = io.NopCloser(strings.NewReader(redirectBlocked))
	response.ContentLength = int64(len(redirectBlocked))
}

// fail writes the response to a request that could not be proxied. If the context of the request
// has ended, it writes nothing, because the filters write the response.
func (s *server) fail(w http.ResponseWriter, parent context.Context, err error) {
	if parent.Err() != nil {
		return
	}
	s.suspect()
	s.source.logger.LogAttrs(parent, slog.LevelDebug, "request to an aggregated server failed",
		slog.String("service", s.address.service.String()), slog.Any("err", err))
	if unresolved := (*egress.ResolveError)(nil); errors.As(err, &unresolved) {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	http.Error(w, "error trying to reach service: "+err.Error(), http.StatusServiceUnavailable)
}
