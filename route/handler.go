package route

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/endpoints"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/rest"
)

// Handler answers requests for resources, and passes all others on.
type Handler struct {
	Catalog *Catalog
	API     *endpoints.API
	// Elsewhere returns what answers for a group version that another server
	// is registered for, with all that is below it; nil for all others. Nil:
	// there are no others.
	Elsewhere func(schema.GroupVersion) http.Handler
	// Others answers requests that are for no resource.
	Others http.Handler
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info := request.InfoFrom(r.Context())
	if elsewhere := h.elsewhere(info); elsewhere != nil {
		elsewhere.ServeHTTP(w, r)
		return
	}
	if info == nil || !info.IsResource {
		h.Others.ServeHTTP(w, r)
		return
	}
	if info.Group == "" && strings.HasPrefix(strings.TrimLeft(info.Path, "/"), "apis/") {
		http.NotFound(w, r) // the core group is below /api alone
		return
	}
	gv := schema.GroupVersion{Group: info.Group, Version: info.Version}
	resource := h.Catalog.Find(gv, info.Resource, info.Subresource)
	switch {
	case resource != nil && fits(resource, info):
		h.API.Serve(w, r, resource)
	case info.Group != "" && !h.Catalog.HasStaticGroup(info.Group):
		http.NotFound(w, r) // as kube-apiserver: of other groups not even a Status
	default:
		h.API.WriteNotFound(w, r)
	}
}

// elsewhere returns who else answers for the group version that a request is
// below of, nil for nobody.
func (h *Handler) elsewhere(info *request.Info) http.Handler {
	if h.Elsewhere == nil || info == nil {
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
		return nil // the core group is below /api alone
	}
	return h.Elsewhere(gv)
}

// fits reports whether the path has a namespace where the resource wants one. Of
// custom resources, other requests across namespaces than those to read are for
// nothing that is there; of built-in ones, they are for a method that is not.
func fits(resource *rest.Resource, info *request.Info) bool {
	if resource.Namespaced {
		reads := info.Verb == "list" || info.Verb == "watch"
		return info.Namespace != "" || !info.NameInPath && (reads || !resource.Custom)
	}
	isNamespace := resource.Name == "namespaces" && resource.GroupVersion.Group == ""
	return info.Namespace == "" || isNamespace
}
