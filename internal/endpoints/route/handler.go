package route

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// Aggregation is the set of group versions that APIServices assign to other servers. Its methods do
// not block, and are safe for concurrent use.
type Aggregation interface {
	// Handler returns the handler for all paths below a group version, or nil if no other server serves the
	// group version.
	Handler(schema.GroupVersion) http.Handler
	// Generation increases with every change of the handlers.
	Generation() uint64
}

// Handler resolves requests and dispatches them to the API, or to another handler if no resource of this
// server has their path. Its fields must not change after the first request. Its methods are safe for
// concurrent use.
type Handler struct {
	// Catalog contains the resources of this server. Required.
	Catalog *Catalog
	// API serves the requests for resources of the Catalog, and writes errors. Required.
	API *endpoints.API
	// Aggregation contains the group versions that other servers serve; nil means that there are none.
	Aggregation Aggregation
	// Peers returns a handler that forwards a request for an unknown resource to another server of the same
	// cluster, or nil if no server has the resource. If Peers is nil, requests are never forwarded.
	Peers func(*http.Request, schema.GroupVersionResource) http.Handler
	// NonResource serves the paths that are not resource paths. Required.
	NonResource http.Handler
	// KnownPath reports whether a non-resource path can be used as a metric label; nil means that no path
	// can.
	KnownPath func(path string) bool
}

// ServeHTTP implements http.Handler. It uses the route in the request's context, and resolves the request if
// the context has no route. It passes a request without a request.Info to NonResource.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info := request.InfoFrom(r.Context())
	if info == nil {
		h.NonResource.ServeHTTP(w, r)
		return
	}
	route := h.current(r.Context(), info)
	if route.Resource != nil && isRoutable(info) && matchesScope(route.Resource, info) {
		h.API.Serve(w, r, route.Resource)
		return
	}
	if request.VisibilityFrom(r.Context()) != nil {
		// The resource was removed after authorization. Another handler would not apply the visibility of the
		// request.
		h.API.WriteNotFound(w, r)
		return
	}
	h.fallback(r, route, info).ServeHTTP(w, r)
}

// fallback returns the handler for a request that no resource of this server serves.
func (h *Handler) fallback(r *http.Request, route *Route, info *request.Info) http.Handler {
	switch {
	case route.aggregated != nil:
		return route.aggregated
	case !info.IsResource:
		return h.NonResource
	case isCoreGroupBelowAPIs(info):
		return http.NotFoundHandler()
	case info.Unroutable:
		return http.HandlerFunc(h.API.WriteNotFound)
	}
	parent := route.Resource
	if parent == nil && info.Subresource != "" {
		parent = h.Catalog.Find(groupVersion(info), info.Resource, "")
	}
	gvr := groupVersion(info).WithResource(info.Resource)
	if parent == nil && h.Peers != nil {
		if peer := h.Peers(r, gvr); peer != nil {
			return peer
		}
	}
	switch {
	case info.Subresource != "" && parent != nil && parent.Custom:
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.API.WriteError(w, r, apierrors.NewNotFound(gvr.GroupResource(), info.Name))
		})
	case info.Group != "" && !h.Catalog.HasStaticGroup(info.Group):
		return http.NotFoundHandler() // as in kube-apiserver, the response for an unknown group is not a Status
	}
	return http.HandlerFunc(h.API.WriteNotFound)
}

func isRoutable(info *request.Info) bool { return !info.Unroutable && !isCoreGroupBelowAPIs(info) }

// isCoreGroupBelowAPIs reports whether a path has the form /apis//VERSION/RESOURCE. The core group exists
// only below /api.
func isCoreGroupBelowAPIs(info *request.Info) bool {
	return info.IsResource && info.Group == "" && strings.HasPrefix(strings.TrimLeft(info.Path, "/"), "apis/")
}

// matchesScope reports whether the path has a namespace if the resource requires one, and no namespace if
// the resource is cluster-scoped. As in kube-apiserver, a write across all namespaces results in 404 for
// custom resources and in 405 for built-in resources. To get the 405, matchesScope returns true.
func matchesScope(resource *rest.Resource, info *request.Info) bool {
	if resource.Namespaced {
		reads := info.Verb == "list" || info.Verb == "watch"
		return info.Namespace != "" || !info.NameInPath && (reads || !resource.Custom)
	}
	isNamespace := resource.Name == "namespaces" && resource.GroupVersion.Group == ""
	return info.Namespace == "" || isNamespace
}
