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
	// Others answers requests that are for no resource.
	Others http.Handler
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info := request.InfoFrom(r.Context())
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
	case resource == nil && info.Group != "" && !h.Catalog.HasStaticGroup(info.Group):
		http.NotFound(w, r) // as kube-apiserver: of other groups not even a Status
	default:
		h.API.WriteNotFound(w, r)
	}
}

// fits tells whether the path has a namespace where the resource wants one.
func fits(resource *rest.Resource, info *request.Info) bool {
	if resource.Namespaced {
		return info.Namespace != "" || !info.NameInPath
	}
	isNamespace := resource.Name == "namespaces" && resource.GroupVersion.Group == ""
	return info.Namespace == "" || isNamespace
}
