package controlplane

import (
	"net/http"
	"strings"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/endpoints/discovery"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/rest"
)

// newAPI creates the handlers for the verbs of all resources.
func newAPI(s *settings, r *resources, chain admission.Chain, authorizer authorizer.Authorizer, controllers *controllerSet) *endpoints.API {
	metrics := &s.env.Telemetry
	config := endpoints.Config{
		Admission:        chain,
		AdmissionMetrics: metrics.Metrics.Admission.Plugins,
		Authorizer:       authorizer,
		Equivalents:      r.catalog.Equivalents,
		TypeConverter:    s.env.TypeConverter,
		Ownership:        s.env.Ownership,
		MinWatchTimeout:  s.options.Requests.MinTimeout,
		OnWatchEvents: func(r *rest.Resource, events, bytes int) {
			metrics.Requests.WatchEvents(r.GVR(), events, bytes)
		},
		OnDeprecated:   metrics.Requests.Deprecated,
		ControllerRuns: controllers.runsAnywhere,
		Memory:         s.env.Limits.Memory,
		UnsafeDeletion: s.gates.Enabled(feature.AllowUnsafeMalformedObjectDeletion),
		Simulation:     s.env.Simulation,
		Logger:         metrics.Logger,
	}
	if r.history != nil {
		config.Restore = r.history.restore
	}
	return endpoints.New(config)
}

// newResourceHandler creates the handler that resolves requests. It serves API requests, discovery
// documents and OpenAPI documents. paths contains the non-resource paths that another handler
// serves.
func newResourceHandler(s *settings, r *resources, api *endpoints.API, paths *paths) *route.Handler {
	handler := &route.Handler{Catalog: r.catalog, API: api, Aggregation: r.registrations, KnownPath: paths.isKnown}
	discoveryDocuments := discovery.NewHandler(r.catalog, r.registrations)
	discoveryDocuments.ServerAddress = s.env.Network.ExternalAddress
	if r.peers != nil {
		handler.Peers, discoveryDocuments.Peers = r.peers.Handler, r.peers
	}
	handler.NonResource = newDocumentHandler(api.ReadOnly(discoveryDocuments), r.documents.Handler(s.env.Telemetry.Logger))
	return handler
}

// newDocumentHandler serves the discovery and OpenAPI documents, and 404 for other paths.
func newDocumentHandler(discoveryDocuments, openAPIDocuments http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case discovery.Handles(r.URL.Path):
			discoveryDocuments.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, "/openapi/"):
			openAPIDocuments.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	})
}

// documentPaths returns the paths of the discovery and OpenAPI documents.
func documentPaths(catalog *route.Catalog) []string {
	list := []string{"/api", "/apis", "/apis/", "/openapi/v2", "/openapi/v3", "/openapi/v3/"}
	for _, group := range catalog.Groups() {
		if group.Name != "" {
			list = append(list, "/apis/"+group.Name)
		}
		for _, version := range group.Versions {
			if group.Name == "" {
				list = append(list, "/api/"+version.GroupVersion.Version)
				continue
			}
			list = append(list, "/apis/"+version.GroupVersion.String())
		}
	}
	return list
}
