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
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/request"
)

// clustersPrefix precedes the name of a control plane in paths.
const clustersPrefix = "/clusters/"

// Handler returns a handler that passes requests below /clusters/NAME/ to the control plane of that name,
// and all other requests to root.
func (f *Fleet) Handler(root http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.URL.Path, clustersPrefix)
		name, _, _ := strings.Cut(rest, "/")
		if !ok || name == "" {
			root.ServeHTTP(w, r)
			return
		}
		if err := f.serve(w, r, name); err != nil {
			endpoints.WriteStatus(w, r, endpoints.StatusOf(err))
		}
	})
}

// serve serves a request to a control plane. It returns an error before it has written a response.
func (f *Fleet) serve(w http.ResponseWriter, r *http.Request, name string) error {
	cut, ok := request.WithoutPathPrefix(r, pathPrefix(name))
	if !ok {
		return f.reject(r, name, nil, errEscaped)
	}
	p, err := f.find(r.Context(), name)
	if err != nil {
		return unavailable(err)
	}
	if p == nil {
		return f.reject(cut, name, nil, errMissing)
	}
	if !hasCredentials(cut) {
		return unauthorized() // without opening the control plane
	}
	if err := p.limitRate(); err != nil {
		return err
	}
	s, err := p.acquire(r.Context())
	switch {
	case errors.Is(err, errRemoved), errors.Is(err, errPaused):
		return f.reject(cut, name, p, err)
	case errors.Is(err, errStopping), err != nil && r.Context().Err() != nil:
		return unavailable(err)
	case err != nil:
		f.logger.Error("a control plane cannot be opened", "name", name, "err", err)
		return unavailable(errors.New("the control plane cannot be opened now"))
	}
	ctx, cancel := context.WithCancelCause(cut.Context())
	forget := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	// A watch continues after its handler has returned.
	context.AfterFunc(r.Context(), func() {
		forget()
		cancel(nil)
		p.release(s)
	})
	s.ServeHTTP(w, cut.WithContext(ctx))
	return nil
}

// Reasons for rejecting requests.
var (
	errMissing = errors.New("there is no control plane of this name")
	errEscaped = errors.New("the name of the control plane is escaped in the path")
)

// unauthorized returns the response to a request without valid credentials, as that of a control plane.
func unauthorized() error { return apierrors.NewUnauthorized("Unauthorized") }

func unavailable(err error) error { return apierrors.NewServiceUnavailable(err.Error()) }

// hasCredentials reports whether a request has credentials of any kind, which may be invalid.
func hasCredentials(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || r.Header.Get("Sec-Websocket-Protocol") != "" || r.TLS != nil && len(r.TLS.PeerCertificates) > 0
}

// reject returns the response to a request that no control plane serves; p may be nil. Only the
// administrator of the control plane, and users of the root control plane with the permission to enter it,
// receive the reason. For all others, the response does not depend on whether the name exists.
func (f *Fleet) reject(r *http.Request, name string, p *plane, reason error) error {
	if p == nil || f.administrator(p.key.uid, authn.BearerToken(r)) == nil {
		visitor, err := (&visitors{fleet: f, name: name}).Authenticate(r)
		var status *apierrors.StatusError
		switch {
		case errors.As(err, &status):
			return status
		case visitor == nil:
			return unauthorized()
		}
	}
	switch reason {
	case errMissing, errRemoved:
		return apierrors.NewNotFound(controlplanes.Resource().GroupResource(), name)
	case errEscaped:
		return apierrors.NewBadRequest(reason.Error())
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf("control plane %q: %v", name, reason))
}
