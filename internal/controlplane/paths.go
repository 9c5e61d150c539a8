package controlplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/telemetry"
)

// paths contains the handlers of non-resource paths. They do not change after newPaths.
type paths struct {
	exact    map[string]http.Handler
	prefixes []prefix
	catalog  *route.Catalog
}

type prefix struct {
	path    string
	handler http.Handler
}

// handle registers a handler for a path. For a path that ends with a slash, the handler serves all
// paths below it.
func (p *paths) handle(path string, handler http.Handler) {
	if strings.HasSuffix(path, "/") && path != "/" {
		p.prefixes = append(p.prefixes, prefix{path, handler})
		return
	}
	p.exact[path] = handler
}

func (p *paths) has(path string) bool { return p.exact[path] != nil }

// isKnown reports whether this control plane always serves a non-resource path. Other paths must not become
// labels of metrics, because clients could create any number of them, even without credentials. They include the
// documents of groups that CustomResourceDefinitions define.
func (p *paths) isKnown(path string) bool {
	if path == "/openapi/v2" || path == "/openapi/v3" || path == "/openapi/v3/" {
		return true
	}
	if described, ok := strings.CutPrefix(path, "/openapi/v3"); ok {
		return p.has(described) || p.isDiscovery(described)
	}
	return p.has(path) || p.isDiscovery(strings.TrimSuffix(path, "/"))
}

// isDiscovery reports whether a path is the path of a discovery document of a built-in group.
func (p *paths) isDiscovery(path string) bool {
	const most = 4 // of the form /apis/GROUP/VERSION
	parts := strings.SplitN(path, "/", most+1)
	switch {
	case parts[0] != "" || slices.Contains(parts[1:], ""):
		return false
	case len(parts) == 2:
		return parts[1] == "api" || parts[1] == "apis"
	case len(parts) == 3 && parts[1] == "api":
		return p.isStatic("", parts[2])
	case len(parts) == 3 && parts[1] == "apis":
		return p.catalog.HasStaticGroup(parts[2])
	}
	return len(parts) == most && parts[1] == "apis" && p.isStatic(parts[2], parts[3])
}

// isStatic reports whether a version belongs to a built-in group.
func (p *paths) isStatic(name, version string) bool {
	group, _ := p.catalog.Group(name)
	return p.catalog.HasStaticGroup(name) && slices.ContainsFunc(group.Versions, func(v rest.Version) bool { return v.GroupVersion.Version == version })
}

// find returns the handler of a path, or nil. If no exact path matches, the longest matching prefix applies.
func (p *paths) find(path string) http.Handler {
	if handler := p.exact[path]; handler != nil {
		return handler
	}
	var longest prefix
	for _, prefix := range p.prefixes {
		if strings.HasPrefix(path, prefix.path) && len(prefix.path) > len(longest.path) {
			longest = prefix
		}
	}
	return longest.handler
}

// indexPaths returns paths for the index at /, including the paths of the host that are not prefixes.
func indexPaths(host map[string]http.Handler) []string {
	list := append(healthPaths(), "/", openIDConfigurationPath, openIDKeysPath, versionPath)
	for path := range host {
		if !strings.HasSuffix(path, "/") {
			list = append(list, path)
		}
	}
	slices.Sort(list)
	return list
}

// newPaths creates the handlers of non-resource paths.
func newPaths(s *settings, catalog *route.Catalog, api *endpoints.API, webhooks *admissionWebhooks, flow *flowControl, health *healthChecks) (*paths, error) {
	p := &paths{exact: map[string]http.Handler{}, catalog: catalog}
	versionJSON, err := json.MarshalIndent(s.options.versionInfo(s.env.Version), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the version: %w", err)
	}
	version := api.ReadOnly(static("application/json", versionJSON))
	p.handle(versionPath, version)
	p.exact[versionPath+"/"] = version

	p.handle(AdmissionPath, newAdmissionHandler(s, webhooks))
	for path, handler := range newOpenIDHandlers(s, api) {
		p.handle(path, handler)
		p.exact[path+"/"] = handler // the path in the OpenAPI document
	}
	for path, handler := range flow.dumps() {
		p.handle(path, handler)
	}
	for path, handler := range s.env.Paths {
		p.handle(path, handler)
	}
	for _, path := range healthPaths() {
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// The checks are created for each request, because most control planes are never checked.
			telemetry.NewHealth(path, s.env.Telemetry.Logger, s.env.Health.Metrics, health.checks()[path]...).ServeHTTP(w, r)
		})
		p.handle(path, handler)
		p.handle(path+"/", handler)
	}
	p.handle("/", newIndexHandler(func() []string {
		return slices.Concat(indexPaths(s.env.Paths), health.checkPaths(), documentPaths(catalog))
	}))
	return p, nil
}

// newIndexHandler returns a handler that serves a sorted list of paths as JSON.
func newIndexHandler(paths func() []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list := paths()
		slices.Sort(list)
		if prefix := request.PathPrefix(r.Context()); prefix != "" {
			for i, path := range list {
				list[i] = prefix + path
			}
		}
		body, err := json.MarshalIndent(map[string][]string{"paths": list}, "", "  ")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // an error means that the client has disconnected
	})
}

// newRootHandler returns the handler that requests reach after the filters. It serves the non-resource paths of
// p, and passes other requests to resources.
func newRootHandler(p *paths, resources http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handler := p.find(r.URL.Path); handler != nil {
			handler.ServeHTTP(w, r)
			return
		}
		resources.ServeHTTP(w, r)
	})
}

func static(contentType string, body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body) // an error means that the client has disconnected
	})
}
