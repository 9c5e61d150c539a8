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

// Handler serves requests for resources, and passes all others on.
type Handler struct {
	Catalog *Catalog
	API     *endpoints.API
	// Aggregated returns the handler of a group version that an APIService assigns to another
	// server, for all paths below it; nil for others. It may be nil.
	Aggregated func(schema.GroupVersion) http.Handler
	// Peers returns the handler of a request for a resource that only another server has, or nil.
	// It may be nil.
	Peers func(*http.Request, schema.GroupVersionResource) http.Handler
	// NonResource serves requests that are for no resource. Required.
	NonResource http.Handler
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, other := h.find(r, request.InfoFrom(r.Context()))
	if resource != nil {
		h.API.Serve(w, r, resource)
		return
	}
	if request.VisibilityFrom(r.Context()) != nil {
		h.API.WriteNotFound(w, r) // the resource has just disappeared; only aggregated servers have no limits
		return
	}
	other.ServeHTTP(w, r)
}

// find returns the resource of a request, or another handler.
func (h *Handler) find(r *http.Request, info *request.Info) (*rest.Resource, http.Handler) {
	if aggregated := h.aggregated(info); aggregated != nil {
		return nil, aggregated
	}
	if info == nil || !info.IsResource {
		return nil, h.NonResource
	}
	if info.Group == "" && strings.HasPrefix(strings.TrimLeft(info.Path, "/"), "apis/") {
		return nil, http.NotFoundHandler() // the core group exists below /api only
	}
	if info.Unroutable {
		return nil, http.HandlerFunc(h.API.WriteNotFound)
	}
	gv := schema.GroupVersion{Group: info.Group, Version: info.Version}
	resource := h.Catalog.Find(gv, info.Resource, info.Subresource)
	if resource == nil && h.Peers != nil && h.Catalog.Find(gv, info.Resource, "") == nil {
		if peer := h.Peers(r, gv.WithResource(info.Resource)); peer != nil {
			return nil, peer
		}
	}
	switch {
	case resource != nil && fits(resource, info):
		return resource, nil
	case info.Subresource != "" && h.isCustom(gv, info.Resource):
		return nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.API.WriteError(w, r, apierrors.NewNotFound(gv.WithResource(info.Resource).GroupResource(), info.Name))
		})
	case info.Group != "" && !h.Catalog.HasStaticGroup(info.Group):
		return nil, http.NotFoundHandler() // as kube-apiserver: for other groups not even a Status
	}
	return nil, http.HandlerFunc(h.API.WriteNotFound)
}

// isCustom reports whether a resource is served for a CustomResourceDefinition.
func (h *Handler) isCustom(gv schema.GroupVersion, name string) bool {
	resource := h.Catalog.Find(gv, name, "")
	return resource != nil && resource.Custom
}

// aggregated returns the handler of the aggregated group version of a request's path, or nil.
func (h *Handler) aggregated(info *request.Info) http.Handler {
	if h.Aggregated == nil || info == nil {
		return nil
	}
	gv := schema.GroupVersion{Group: info.Group, Version: info.Version}
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
	return h.Aggregated(gv)
}

// fits reports whether the path has a namespace if the resource requires one. As in kube-apiserver,
// a write across all namespaces gets 404 for custom resources and 405 for built-in ones, for which
// fits returns true.
func fits(resource *rest.Resource, info *request.Info) bool {
	if resource.Namespaced {
		reads := info.Verb == "list" || info.Verb == "watch"
		return info.Namespace != "" || !info.NameInPath && (reads || !resource.Custom)
	}
	isNamespace := resource.Name == "namespaces" && resource.GroupVersion.Group == ""
	return info.Namespace == "" || isNamespace
}
