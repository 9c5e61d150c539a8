package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/request"
)

// clustersPrefix is the part of a path before the name of a control plane.
const clustersPrefix = "/clusters/"

// pathPrefix returns the prefix of the paths of a control plane.
func pathPrefix(name string) string { return clustersPrefix + name }

// nameOf returns the name of the control plane in a path, or "" if the path belongs to the root control
// plane.
func nameOf(path string) string {
	rest, ok := strings.CutPrefix(path, clustersPrefix)
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// Handler returns a handler that passes requests below /clusters/NAME/ to the control plane with that name, and
// all other requests to root.
func (f *Fleet) Handler(root http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := nameOf(r.URL.Path); name != "" {
			f.serve(w, r, name)
		} else {
			root.ServeHTTP(w, r)
		}
	})
}

// serve serves a request to the control plane with the given name, or rejects it.
func (f *Fleet) serve(w http.ResponseWriter, r *http.Request, name string) {
	cut, ok := request.WithoutPathPrefix(r, pathPrefix(name))
	if !ok {
		f.reject(w, r.WithContext(request.WithPathPrefix(r.Context(), pathPrefix(name))), errEscaped)
		return
	}
	p, err := f.find(r.Context(), name)
	if err == nil {
		var s *session
		if s, err = f.acquire(cut, p); err == nil {
			context.AfterFunc(r.Context(), func() { p.release(s) }) // a watch continues after its handler has returned
			s.ServeHTTP(w, cut)
			return
		}
	}
	f.reject(w, cut, err)
}

// acquire returns a session for a request; the caller must release it. If the control plane is closed, only a
// request with valid credentials opens it.
func (f *Fleet) acquire(r *http.Request, p *plane) (*session, error) {
	if p == nil {
		return nil, errMissing
	}
	if err := p.usable(); err != nil {
		return nil, err
	}
	if p.opened() == nil && !f.recognizes(r, p) {
		return nil, errUnrecognized
	}
	return p.acquire(r.Context())
}

// Reasons for rejecting requests, in addition to the errors of plane.usable.
var (
	errMissing      = errors.New("there is no control plane with this name")
	errEscaped      = errors.New("the name of the control plane is escaped in the path")
	errUnrecognized = errors.New("the credentials are not valid in the control plane")
)

type reasonKey struct{}

// reject responds to a request that no control plane serves. Only the administrator of the control plane,
// and users of the root control plane with the permission to enter it, receive the reason. For all other users,
// the response does not depend on whether a control plane with this name exists.
func (f *Fleet) reject(w http.ResponseWriter, r *http.Request, reason error) {
	f.rejection.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), reasonKey{}, reason)))
}

// newRejection returns the handler that reject uses. It has the filters of a control plane up to
// authentication, so that the responses have the same headers.
func (f *Fleet) newRejection() http.Handler {
	options, metrics := &f.config.Options, &f.config.Env.Telemetry
	onError := func(w http.ResponseWriter, r *http.Request, err error) {
		endpoints.WriteStatus(w, r, endpoints.StatusOf(err))
	}
	return filters.Chain(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reason, _ := r.Context().Value(reasonKey{}).(error)
			onError(w, r, f.rejectionError(r, reason))
		}),
		filters.AuditID,
		filters.Recover(f.logger, onError),
		filters.RequestInfo(func(*request.Info) request.Route { return nil }, onError),
		filters.HSTS(options.Requests.HSTSDirectives),
		filters.CacheControl,
		f.config.Env.Shutdown.Drain.Filter(onError),
		filters.GoAway(options.Requests.GoAwayChance),
		filters.CORS(options.Requests.CORSAllowedOrigins),
		filters.Authenticate(filters.AuthenticateConfig{
			Authenticator: authn.Union{administrators{f}, visitors{f}},
			Anonymous:     func(string) bool { return false },
			CloseHTTP2:    options.Gates().Enabled(feature.UnauthenticatedHTTP2DOSMitigation),
			Metrics:       metrics.Metrics.Security.Authentication,
			Logger:        f.logger,
			OnError:       onError,
		}),
	)
}

// rejectionError returns the API error for an authenticated user.
func (f *Fleet) rejectionError(r *http.Request, reason error) error {
	name := nameOf(request.PathPrefix(r.Context()))
	switch {
	case errors.Is(reason, errMissing), errors.Is(reason, errRemoved):
		return apierrors.NewNotFound(controlplanes.Resource().GroupResource(), name)
	case errors.Is(reason, errEscaped):
		return apierrors.NewBadRequest(reason.Error())
	case errors.Is(reason, errPaused), errors.Is(reason, errStopping), errors.Is(reason, context.Canceled), errors.Is(reason, context.DeadlineExceeded):
		return apierrors.NewServiceUnavailable(fmt.Sprintf("control plane %q: %v", name, reason))
	}
	if missing := (*sourceError)(nil); errors.As(reason, &missing) {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("control plane %q: %v", name, missing))
	}
	f.logger.Error("a control plane cannot be opened", "name", name, "err", reason)
	return apierrors.NewServiceUnavailable(fmt.Sprintf("the control plane %q cannot be opened now", name))
}
