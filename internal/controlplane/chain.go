package controlplane

import (
	"net/http"
	"strings"

	"mainstay.dev/mainstay/internal/endpoints/discovery"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/filters/authz"
)

// chain is the way of every request, read from top to bottom.
func (i *instance) chain(final http.Handler) http.Handler {
	onError := i.api.WriteError
	refuse := i.audit.Refusal(onError)
	if i.options.Filter != nil {
		final = i.options.Filter(final)
	}
	if i.storageVersions != nil {
		final = filters.StorageVersions(i.storageVersions.Pending, onError)(final)
	}
	return filters.Chain(final,
		filters.Upgrades(i.env.Logger),
		filters.AuditID,
		filters.Recover(i.env.Logger, onError),
		filters.RequestInfo(i.resources.Resolve, onError),
		filters.AuditInit(i.audit),
		filters.Track(filters.TrackConfig{Metrics: i.env.Requests, Logger: i.env.Logger}),
		filters.HSTS(i.options.HSTSDirectives),
		filters.CacheControl,
		i.env.Drain.Filter(onError),
		filters.GoAway(i.options.GoAwayChance),
		filters.Deadline(filters.DeadlineConfig{Max: i.options.RequestTimeout, Metrics: i.env.Requests, Logger: i.env.Logger, OnError: onError, OnInvalid: refuse}),
		filters.CORS(i.options.CORSAllowedOrigins),
		filters.Authenticate(filters.AuthenticateConfig{
			Authenticator: authn.Union{i.env.Identity.Authenticator, i.tokens},
			Anonymous:     i.anonymous().Allows,
			CloseHTTP2:    i.rows.Gates.Enabled(feature.UnauthenticatedHTTP2DOSMitigation),
			Metrics:       i.env.Metrics.Authentication,
			Logger:        i.env.Logger,
			OnError:       refuse,
		}),
		filters.Audit(i.audit),
		filters.Impersonate(filters.ImpersonateConfig{
			Authorizer: i.authorizer, Constrained: i.rows.Gates.Enabled(feature.ConstrainedImpersonation), Logger: i.env.Logger, OnError: onError,
		}),
		i.limits(onError),
		filters.Authorize(authz.Measured{Authorizer: i.authorizer, Metrics: i.env.Metrics.Authorized}, i.views(), i.env.Logger, onError),
	)
}

// anonymous returns the requests that need no credentials. As in kube-apiserver, with AlwaysAllow
// there are none.
func (i *instance) anonymous() *authn.AnonymousConfig {
	switch {
	case i.asks(authz.TypeAlwaysAllow):
		return &authn.AnonymousConfig{}
	case i.env.Identity.Anonymous != nil:
		return i.env.Identity.Anonymous
	}
	return &authn.AnonymousConfig{Enabled: !i.options.ClosedToPublic}
}

// isKnownPath reports whether this control plane serves a non-resource path, so that unknown paths
// do not become labels of metrics.
func (i *instance) isKnownPath(path string) bool {
	return i.paths.has(path) || discovery.Handles(path) || strings.HasPrefix(path, "/openapi/")
}
