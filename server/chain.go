package server

import (
	"net/http"

	"mainstay.dev/mainstay/filters"
	"mainstay.dev/mainstay/filters/authn"
	"mainstay.dev/mainstay/filters/authz"
	"mainstay.dev/mainstay/request"
)

// chain is the way of every request, read from top to bottom.
func (s *Server) chain(final http.Handler) http.Handler {
	onError := s.api.OnError
	return filters.Chain(final,
		filters.AuditID,
		filters.Recover(s.logger, onError),
		filters.RequestInfo(onError),
		filters.Track(filters.TrackConfig{Metrics: s.requests, Logger: s.logger, Known: s.known}),
		filters.HSTS(s.config.HSTSDirectives),
		filters.CacheControl,
		s.drain.Filter(onError),
		filters.GoAway(s.config.GoAwayChance),
		filters.Deadline(s.config.RequestTimeout, onError),
		filters.CORS(s.config.CORSAllowedOrigins),
		filters.Authenticate(filters.AuthenticateConfig{
			Authenticator: authn.Union{s.frontProxy, s.users, authn.Tokens{}},
			Anonymous:     s.anonymous(),
			Logger:        s.logger,
			OnError:       onError,
		}),
		filters.RefuseImpersonation(onError),
		filters.MaxInFlight(s.config.MaxRequestsInFlight, s.config.MaxMutatingInFlight, s.requests, onError),
		filters.Authorize(s.authorizer(), s.logger, onError),
	)
}

// anonymous is whether requests without credentials pass. As kube-apiserver,
// they do not where everything is allowed to everyone.
func (s *Server) anonymous() bool {
	for _, mode := range s.config.AuthorizationModes {
		if mode == modeAlwaysAllow {
			return false
		}
	}
	return !s.config.ClosedToPublic
}

func (s *Server) authorizer() authz.Authorizer {
	union := authz.Union{authz.Masters{}}
	for _, mode := range s.config.AuthorizationModes {
		switch mode {
		case modeAlwaysAllow:
			union = append(union, authz.AlwaysAllow{})
		case modeAlwaysDeny:
			union = append(union, authz.AlwaysDeny{})
		}
	}
	if len(s.config.AuthorizationModes) == 0 {
		union = append(union, authz.PublicInfo{})
	}
	return union
}

// known tells what this server answers for, for the labels of its metrics.
func (s *Server) known(info *request.Info) bool {
	if !info.IsResource {
		return s.paths.has(info.Path) || s.api.Known(info)
	}
	return s.api.Known(info)
}
