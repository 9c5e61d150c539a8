package route

import (
	"context"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// Route is the destination of a request, as determined when the request is resolved. It is immutable. It
// does not imply that the request is authorized or valid.
type Route struct {
	// Resource is the resource or subresource that the path names, or nil if this server does not have it,
	// if another server serves the group version, or if the path is not a resource path. The rest of the
	// path may still be invalid, for example if the namespace is missing.
	Resource *rest.Resource

	// aggregated is the handler for a group version that another server serves, or nil.
	aggregated  http.Handler
	known       bool
	longRunning bool
	// generation is the result of Handler.generation when the request was resolved.
	generation uint64
}

// From returns the route that filters.RequestInfo has recorded in the context of a request. It returns nil
// if ctx is not the context of a request.
func From(ctx context.Context) *Route {
	route, _ := request.RouteFrom(ctx).(*Route)
	return route
}

// Known implements request.Route.
func (r *Route) Known() bool { return r.known }

// LongRunning implements request.Route. For subresources of this server, the storage determines the result
// (rest.Connection). All other requests follow the rules of kube-apiserver (request.LongRunningByName).
func (r *Route) LongRunning() bool { return r.longRunning }

// Resolve returns the route of a parsed request. It does not block, and is safe for concurrent use.
func (h *Handler) Resolve(info *request.Info) request.Route { return h.resolve(info) }

func (h *Handler) resolve(info *request.Info) *Route {
	// The generation is read first, so that a concurrent change makes the route outdated.
	route := &Route{generation: h.generation(), aggregated: h.aggregated(info)}
	switch {
	case !info.IsResource:
		route.known = h.KnownPath != nil && h.KnownPath(info.Path)
	case route.aggregated == nil:
		route.Resource = h.Catalog.Find(groupVersion(info), info.Resource, info.Subresource)
		route.known = route.Resource != nil
	}
	route.longRunning = route.isLongRunning(info)
	return route
}

func (r *Route) isLongRunning(info *request.Info) bool {
	if !info.IsResource || info.Subresource == "" || info.Verb == "watch" || r.aggregated != nil {
		return request.LongRunningByName(info)
	}
	if r.Resource == nil {
		return false
	}
	connecter, ok := r.Resource.Storage.(rest.Connecter)
	return ok && connecter.Connection().LongRunning
}

// current returns the route with which a request is dispatched. A request may wait between its resolution
// and its dispatch, for example in a queue of priority and fairness. If resources have changed in the
// meantime, the request is resolved again, because a removed or changed definition must not be used for new
// requests.
func (h *Handler) current(ctx context.Context, info *request.Info) *Route {
	if route := From(ctx); route != nil && route.generation == h.generation() {
		return route
	}
	return h.resolve(info)
}

// generation increases with every change of the resources of this server and of the group versions
// of other servers.
func (h *Handler) generation() uint64 {
	generation := h.Catalog.Generation()
	if h.Aggregation != nil {
		generation += h.Aggregation.Generation()
	}
	return generation
}

// aggregated returns the handler for the group version in a request's path if another server serves it, or
// nil.
func (h *Handler) aggregated(info *request.Info) http.Handler {
	if h.Aggregation == nil {
		return nil
	}
	gv := groupVersion(info)
	if !info.IsResource {
		parts := strings.Split(strings.Trim(info.Path, "/"), "/")
		switch {
		case len(parts) == 3 && parts[0] == "apis":
			gv = schema.GroupVersion{Group: parts[1], Version: parts[2]}
		case len(parts) == 2 && parts[0] == "api":
			gv = schema.GroupVersion{Version: parts[1]}
		default:
			return nil
		}
	}
	if gv.Group == "" && !strings.HasPrefix(strings.TrimLeft(info.Path, "/"), "api/") {
		return nil // the core group exists below /api only
	}
	return h.Aggregation.Handler(gv)
}

func groupVersion(info *request.Info) schema.GroupVersion {
	return schema.GroupVersion{Group: info.Group, Version: info.Version}
}
