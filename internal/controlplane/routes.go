package controlplane

import (
	"fmt"
	"net/http"
	"strings"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/rest"
)

// Route is a combination of an HTTP method and a path that a control plane serves.
type Route struct {
	// Action is the action in kube-apiserver's metrics and documents, such as LIST, POST or WATCHLIST;
	// "" for non-resource paths.
	Action string
	// Verb is the verb in authorization, such as list or create.
	Verb string
	// Method is the HTTP method.
	Method string
	// Path is the path with variables in braces.
	Path string
	// Kind is the group, version and kind of the objects; "" for non-resource paths.
	Kind string
}

// Routes returns the routes of a control plane with default options, and the paths of its host. It
// does not open a store. host may be nil. The caller owns the slice.
func Routes(host map[string]http.Handler) ([]Route, error) {
	var routes []Route
	for _, path := range append(indexPaths(host), AdmissionPath) {
		routes = append(routes, Route{Verb: "get", Method: "GET", Path: path})
	}
	options := Options{}.WithDefaults()
	env := newRowEnv(&settings{env: &Env{}, options: options, gates: options.Gates()}, rowDependencies{
		resources: &resourceFinder{}, authorization: &authorization{},
	})
	resources, err := builtin.Build(env, all.Groups())
	if err != nil {
		return nil, err
	}
	for _, group := range route.NewStatic(resources).Groups() {
		for _, version := range group.Versions {
			for _, r := range version.Resources {
				routes = append(routes, resourceRoutes(r)...)
			}
		}
	}
	return routes, nil
}

func resourceRoutes(r *rest.Resource) []Route {
	prefix := "/apis/" + r.GroupVersion.String()
	if r.GroupVersion.Group == "" {
		prefix = "/api/" + r.GroupVersion.Version
	}
	var routes []Route
	for _, verb := range r.Verbs() {
		for _, method := range verb.Methods {
			for _, path := range resourcePaths(r, prefix, verb) {
				routes = append(routes, Route{
					Action: verb.Action, Verb: verb.Name, Method: method, Path: path,
					Kind: fmt.Sprintf("%s, Kind=%s", r.Version.GVK.GroupVersion(), r.Version.GVK.Kind),
				})
			}
		}
	}
	return routes
}

// resourcePaths returns the paths of one verb. A verb of a namespaced resource can have an additional path for
// all namespaces, and connect has an additional path with a subpath.
func resourcePaths(r *rest.Resource, prefix string, verb rest.Verb) []string {
	if verb.Action == "WATCH" || verb.Action == "WATCHLIST" {
		prefix += "/watch"
	}
	tail := "/" + r.Name
	if verb.Item {
		tail += "/{name}"
	}
	if r.Subresource != "" {
		tail += "/" + r.Subresource
	}
	scope := prefix
	if r.Namespaced {
		scope += "/namespaces/{namespace}"
	}
	paths := []string{scope + tail}
	if verb.Action == "CONNECT" {
		paths = append(paths, scope+tail+"/{path:*}")
	}
	if r.Namespaced && verb.AllNamespaces {
		paths = append(paths, prefix+tail)
	}
	return paths
}

func (r Route) String() string {
	return strings.TrimSpace(fmt.Sprintf("%-17s %-16s %-7s %s", r.Action, r.Verb, r.Method, r.Path))
}
