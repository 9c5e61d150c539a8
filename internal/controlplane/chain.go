package controlplane

import (
	"net/http"

	"mainstay.dev/mainstay/internal/controllers/storageversions"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/request"
)

// filterDependencies contains the components that filters use.
type filterDependencies struct {
	onError       filters.ErrorWriter
	audit         *filters.AuditConfig // nil disables audit
	authorization *authorization
	authenticator authn.Authenticator
	flow          *flowControl
	// resolve returns the route of a request; see filters.RequestInfo.
	resolve func(*request.Info) request.Route
	// storageVersions delays writes until the storage versions are reported. It is nil if storage
	// versions are not reported.
	storageVersions *storageversions.Reporter
}

// newFilterChain returns the handler of all requests. A request passes through the filters in the
// order in which this function lists them, and then reaches final.
func newFilterChain(s *settings, d filterDependencies, final http.Handler) http.Handler {
	options, logger, metrics := &s.options, s.env.Telemetry.Logger, &s.env.Telemetry
	onInvalid := d.audit.AuditErrors(d.onError) // also audits the error, for filters before filters.Audit
	if options.Limits != nil {
		final = markClients(final)
	}
	if options.Filter != nil {
		final = options.Filter(final)
	}
	// Clients without access must not find out whether a declared control plane exists.
	afterAuthentication := func(next http.Handler) http.Handler { return next }
	isDeclared := s.env.Identity.Visitors != nil
	if isDeclared {
		afterAuthentication = filters.ValidTimeout(onInvalid)
	}
	if d.storageVersions != nil {
		final = filters.StorageVersions(d.storageVersions.Pending, d.onError)(final)
	}
	return filters.Chain(final,
		filters.Upgrades(logger),
		filters.AuditID,
		filters.Recover(logger, d.onError),
		filters.RequestInfo(d.resolve, d.onError),
		filters.AuditInit(d.audit),
		filters.Track(filters.TrackConfig{Metrics: metrics.Requests, Logger: logger}),
		filters.HSTS(options.Requests.HSTSDirectives),
		filters.CacheControl,
		s.env.Shutdown.Drain.Filter(d.onError),
		s.env.Shutdown.Session.Filter(d.onError),
		filters.GoAway(options.Requests.GoAwayChance),
		filters.Deadline(filters.DeadlineConfig{
			Max: options.Requests.Timeout, Metrics: metrics.Requests, Logger: logger, OnError: d.onError, OnInvalid: onInvalid, IgnoreInvalid: isDeclared,
		}),
		filters.CORS(options.Requests.CORSAllowedOrigins),
		filters.Authenticate(filters.AuthenticateConfig{
			Authenticator: d.authenticator,
			Anonymous:     newAnonymous(s, d.authorization).Allows,
			CloseHTTP2:    s.gates.Enabled(feature.UnauthenticatedHTTP2DOSMitigation),
			Metrics:       metrics.Metrics.Security.Authentication,
			Logger:        logger,
			OnError:       onInvalid,
		}),
		afterAuthentication,
		filters.Trace(metrics.Tracer),
		filters.Audit(d.audit),
		filters.Impersonate(filters.ImpersonateConfig{
			Authorizer: d.authorization.authorizer, Constrained: s.gates.Enabled(feature.ConstrainedImpersonation), Logger: logger, OnError: d.onError,
		}),
		d.flow.filter(s, d.onError),
		filters.Authorize(authz.Measured{Authorizer: d.authorization.authorizer, Metrics: metrics.Metrics.Security.Authorization}, newViews(s, d.authorization), logger, d.onError),
	)
}
