package fleet

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"mainstay.dev/mainstay/internal/admission/webhooks"
	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/filters/audit"
	"mainstay.dev/mainstay/internal/filters/authz"
)

// proxyLifetime is the lifetime of certificates for aggregated servers.
const proxyLifetime = 24 * time.Hour

// url returns the URL of a control plane.
func (f *Fleet) url(name string) string { return f.config.Env.Network.PublicURL + pathPrefix(name) }

// env returns the environment for a session of a control plane. source is the source of a fork, or nil if the
// control plane is not a fork.
func (f *Fleet) env(p *plane, s *session, keys *keySet, source *controlplanes.Source) (*controlplane.Env, error) {
	env := *f.config.Env
	var err error
	if env.Identity, err = f.identity(p, keys); err != nil {
		return nil, err
	}
	env.Storage.Backend = f.backend
	env.Storage.Feed, env.Storage.Overrides, env.Storage.History = f.config.Feed, nil, nil
	env.Authorization = controlplane.Authorization{}
	env.Network.PublicURL, env.Network.PathPrefix = f.url(p.key.name), pathPrefix(p.key.name)
	env.Network.Endpoint, env.Network.PeerAuthorities = netip.Addr{}, nil
	if deniesCalls(source) {
		env.Network.Networks.ControlPlane, env.Network.Networks.Cluster = denyCall, denyCall
	}
	env.Shutdown.Session, env.Shutdown.Tunnels = s.drain, s.tunnels
	env.Telemetry.Audit = f.config.Root.Audit()
	env.Paths, env.Shared = nil, f.shared
	if source != nil {
		env.Paths = map[string]http.Handler{ChangesPath: &changesHandler{f, p.key.uid, s, keys}}
	}
	return &env, nil
}

// options returns the options of a control plane: the options of the root control plane without its
// authenticators, authorizers and addresses. source is the source of a fork, or nil if the control plane is
// not a fork.
func (f *Fleet) options(keys *keySet, limits *limiter, source *controlplanes.Source) controlplane.Options {
	o := f.commonOptions()
	if deniesCalls(source) {
		o.Admission = withoutWebhooks(o.Admission)
	}
	o.ServiceAccounts.Issuers = []string{keys.issuer}
	filter := o.Filter // a filter that tests set
	o.Filter, o.Limits, o.Changes = limits.filter, limits, &limits.usage
	if filter != nil {
		o.Filter = func(next http.Handler) http.Handler { return limits.filter(filter(next)) }
	}
	return o
}

// commonOptions returns the options that all control planes of the fleet have in common.
func (f *Fleet) commonOptions() controlplane.Options {
	o := f.config.Options
	o.Authentication = controlplane.AuthenticationOptions{DisableAnonymousAuth: true}
	o.ServiceAccounts.JWKSURI = ""
	o.Authorization.Modes = []string{authz.TypeRBAC}
	o.Services.EndpointReconciler, o.Services.KubernetesNodePort = controlplane.EndpointsByOthers, 0
	o.Peers = controlplane.PeerOptions{}
	o.Audit = audit.Options{} // replaced by Env.Telemetry.Audit
	o.Definitions = nil
	o.Checks = nil
	return o
}

// errCallDenied is the error of calls to other servers from a fork.
var errCallDenied = errors.New("the control plane is a fork, which does not call other servers; spec.from.outgoingCalls=Allow permits it")

// deniesCalls reports whether a control plane with the given source must not call other servers. source is
// nil if the control plane is not a fork; such control planes may call other servers.
func deniesCalls(source *controlplanes.Source) bool {
	return source != nil && source.OutgoingCalls != controlplanes.AllowCalls
}

// denyCall implements egress.Dial.
func denyCall(context.Context, string, string) (net.Conn, error) { return nil, errCallDenied }

// withoutWebhooks returns options without the plugins that call webhooks.
func withoutWebhooks(o controlplane.AdmissionOptions) controlplane.AdmissionOptions {
	names := []string{(*webhooks.Mutating)(nil).Name(), (*webhooks.Validating)(nil).Name()}
	if len(o.OnlyPlugins) == 0 {
		o.DisablePlugins = slices.Concat(o.DisablePlugins, names)
	} else {
		o.OnlyPlugins = slices.DeleteFunc(slices.Clone(o.OnlyPlugins), func(name string) bool { return slices.Contains(names, name) })
	}
	return o
}
