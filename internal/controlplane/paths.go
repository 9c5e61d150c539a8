package controlplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/endpoints/discovery"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/telemetry"
)

// paths contains the handlers of non-resource paths. They do not change after newPaths.
type paths struct {
	exact    map[string]http.Handler
	prefixes []prefix
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

// isKnown reports whether this control plane serves a non-resource path. Unknown paths must not
// become labels of metrics.
func (p *paths) isKnown(path string) bool {
	return p.has(path) || discovery.Handles(path) || strings.HasPrefix(path, "/openapi/")
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
	p := &paths{exact: map[string]http.Handler{}}
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
