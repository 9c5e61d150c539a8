package controlplane

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/aggregated"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/controllers/storageversions"
	"mainstay.dev/mainstay/internal/endpoints/discovery"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// filterDependencies are the components that filters use.
type filterDependencies struct {
	onError       filters.ErrorWriter
	audit         *filters.AuditConfig // nil disables audit
	authorization *authorization
	authenticator authn.Authenticator
	flow          *flowControl
	resources     *requestResources
	// storageVersions delays writes until the storage versions are reported; nil without reports.
	storageVersions *storageversions.Reporter
}

// newFilterChain returns the handler of all requests: the filters in the order of this function, and
// then final.
func newFilterChain(s *settings, d filterDependencies, final http.Handler) http.Handler {
	options, logger, metrics := &s.options, s.env.Telemetry.Logger, &s.env.Telemetry
	onInvalid := d.audit.Refusal(d.onError) // writes an error before the filter Audit, and records it
	if options.Filter != nil {
		final = options.Filter(final)
	}
	if d.storageVersions != nil {
		final = filters.StorageVersions(d.storageVersions.Pending, d.onError)(final)
	}
	return filters.Chain(final,
		filters.Upgrades(logger),
		filters.AuditID,
		filters.Recover(logger, d.onError),
		filters.RequestInfo(d.resources.longRunning, d.onError),
		filters.AuditInit(d.audit),
		filters.Track(filters.TrackConfig{Metrics: metrics.Requests, Logger: logger, Known: d.resources.known}),
		filters.HSTS(options.Requests.HSTSDirectives),
		filters.CacheControl,
		s.env.Shutdown.Drain.Filter(d.onError),
		filters.GoAway(options.Requests.GoAwayChance),
		filters.Deadline(filters.DeadlineConfig{Max: options.Requests.Timeout, Metrics: metrics.Requests, Logger: logger, OnError: d.onError, OnInvalid: onInvalid}),
		filters.CORS(options.Requests.CORSAllowedOrigins),
		filters.Authenticate(filters.AuthenticateConfig{
			Authenticator: d.authenticator,
			Anonymous:     newAnonymous(s, d.authorization).Allows,
			CloseHTTP2:    s.gates.Enabled(feature.UnauthenticatedHTTP2DOSMitigation),
			Metrics:       metrics.Metrics.Security.Authentication,
			Logger:        logger,
			OnError:       onInvalid,
		}),
		filters.Audit(d.audit),
		filters.Impersonate(filters.ImpersonateConfig{
			Authorizer: d.authorization.authorizer, Constrained: s.gates.Enabled(feature.ConstrainedImpersonation), Logger: logger, OnError: d.onError,
		}),
		d.flow.filter(s, d.onError),
		filters.Authorize(authz.Measured{Authorizer: d.authorization.authorizer, Metrics: metrics.Metrics.Security.Authorization}, newViews(s, d.authorization, d.resources), logger, d.onError),
	)
}

// requestResources classifies requests by the resources that they are for.
type requestResources struct {
	catalog       *route.Catalog
	registrations *aggregated.Source
	paths         *paths
}

// longRunning reports whether the client determines the duration of a request. For subresources of
// this control plane, the storage decides.
func (r *requestResources) longRunning(info *request.Info) bool {
	if !info.IsResource || info.Subresource == "" || info.Verb == "watch" {
		return filters.LongRunning(info)
	}
	gv := schema.GroupVersion{Group: info.Group, Version: info.Version}
	if r.registrations.Handler(gv) != nil {
		return filters.LongRunning(info)
	}
	resource := r.catalog.Find(gv, info.Resource, info.Subresource)
	if resource == nil {
		return false
	}
	connecter, ok := resource.Storage.(rest.Connecter)
	return ok && connecter.Connection().LongRunning
}

// known reports whether this control plane serves the resource or path of a request. Other names
// must not become labels of metrics.
func (r *requestResources) known(info *request.Info) bool {
	if !info.IsResource {
		return r.paths.has(info.Path) || discovery.Handles(info.Path) || strings.HasPrefix(info.Path, "/openapi/")
	}
	gv := schema.GroupVersion{Group: info.Group, Version: info.Version}
	return r.catalog.Find(gv, info.Resource, info.Subresource) != nil
}

// limitable reports whether a request is for namespaced objects of this control plane. Aggregated
// servers do not support limits to visible namespaces.
func (r *requestResources) limitable(attributes *authorizer.Attributes) bool {
	gv := schema.GroupVersion{Group: attributes.APIGroup, Version: attributes.APIVersion}
	if r.registrations.Handler(gv) != nil {
		return false
	}
	resource := r.catalog.Find(gv, attributes.Resource, "")
	return resource != nil && resource.Namespaced
}
