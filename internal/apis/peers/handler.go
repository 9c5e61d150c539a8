package peers

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/request"
)

// proxiedHeader marks a request that another server has forwarded. Such a request is not forwarded
// again.
const proxiedHeader = "X-Kubernetes-Peer-Proxied"

// Handler returns a handler that proxies requests for a resource to a random server that serves it, or nil if
// no other server serves the resource or another server has already proxied r.
func (s *Source) Handler(r *http.Request, resource schema.GroupVersionResource) http.Handler {
	if r.Header.Get(proxiedHeader) == "true" {
		return nil
	}
	var candidates []*peer
	for _, p := range s.current.Load().peers {
		if p.resources[resource] {
			candidates = append(candidates, p)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	return &handler{s, candidates[rand.IntN(len(candidates))].address, resource}
}

// handler proxies requests for a resource to the server at address.
type handler struct {
	source   *Source
	address  string
	resource schema.GroupVersionResource
}

func (h *handler) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	user := request.UserFrom(in.Context())
	if user == nil {
		http.Error(w, "missing user", http.StatusInternalServerError)
		return
	}
	request.WatchInitialized(in.Context()) // from here on, a watch uses only resources of the other server
	transport := h.source.transport
	if proxy.IsUpgrade(in) {
		transport = h.source.upgrade
	}
	h.source.config.Proxy.Serve(w, in, &proxy.Backend{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL = &url.URL{Scheme: "https", Host: h.address, Path: r.In.URL.Path, RawQuery: r.In.URL.Query().Encode()}
			r.Out.Host = h.address
			r.Out.Header.Set(proxiedHeader, "true")
			proxy.SetUser(r.Out.Header, user)
		},
		ModifyResponse: func(response *http.Response) error {
			response.Header.Del("Audit-Id") // this server has already set its own Audit-Id
			for name := range response.Header {
				w.Header().Del(name) // the headers of the other server replace the headers that filters have set
			}
			h.source.config.Metrics.rerouted(response.StatusCode, h.resource)
			return nil
		},
		OnError: func(err error) { h.fail(in.Context(), w, err) },
	})
}

// fail writes the same response as kube-apiserver if the other server did not respond.
func (h *handler) fail(ctx context.Context, w http.ResponseWriter, err error) {
	h.source.config.Logger.LogAttrs(ctx, slog.LevelDebug, "request to another server failed", slog.String("address", h.address), slog.Any("err", err))
	if ctx.Err() == nil { // otherwise the filters write the response
		h.source.config.Metrics.rerouted(http.StatusServiceUnavailable, h.resource)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}
