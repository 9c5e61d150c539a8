package controlplane

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/endpoints/discovery"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage/archive"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// HistoryVerb is the verb that a user needs for a resource, in addition to get, list or watch, to read
// its earlier states.
const HistoryVerb = "history"

// Headers of responses to requests for an earlier state.
const (
	RevisionHeader = "Mainstay-Revision"
	TimeHeader     = "Mainstay-Time" // RFC 3339; missing if the time is unknown
)

const (
	// maxViews is the maximum number of open views. A view uses about 1 MiB.
	maxViews = 16
	// viewIdle is the time after which an unused view is closed.
	viewIdle = time.Minute
)

// past serves requests for earlier states, with a view for each revision. Its requests pass through the
// filters of the present, so that the current authentication and authorization apply. It is safe for
// concurrent use.
type past struct {
	settings      *settings
	history       *archive.Archive // nil if there is no history of this control plane
	authorization *authorization
	tokens        authn.Tokens
	api           *endpoints.API

	mu    sync.Mutex
	views map[kv.Revision]*view
}

func newPast(s *settings, authorization *authorization, tokens authn.Tokens, api *endpoints.API) *past {
	p := &past{settings: s, authorization: authorization, tokens: tokens, api: api, views: map[kv.Revision]*view{}}
	if s.hasHistory() {
		p.history = s.env.Storage.History
	}
	return p
}

// versionPath is the path of the version of the server, which clients such as Helm read first. The version does
// not depend on the requested point in time.
const versionPath = "/version"

// handler returns the handler that requests reach after the filters. present serves the requests for the
// present.
func (p *past) handler(present http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		moment := momentFrom(r.Context())
		if moment == "" || request.InfoFrom(r.Context()).Path == versionPath {
			present.ServeHTTP(w, r)
			return
		}
		if err := p.serve(w, r, moment); err != nil {
			p.api.WriteError(w, r, err)
		}
	})
}

// serve serves a request for the given moment. If it returns an error, it has not written a response.
func (p *past) serve(w http.ResponseWriter, r *http.Request, moment string) error {
	ctx := r.Context()
	info := request.InfoFrom(ctx)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return readOnlyError(info)
	}
	if p.history == nil {
		return apierrors.NewBadRequest("this server has no history; --history-max-age enables it")
	}
	if err := p.authorize(ctx, info); err != nil {
		return err
	}
	revision, err := revisionOf(ctx, p.history, moment, simulation.Now(ctx))
	if err != nil {
		return momentError(err)
	}
	v, err := p.acquire(ctx, revision)
	if err != nil {
		return momentError(err)
	}
	context.AfterFunc(ctx, func() { p.release(v) }) // a watch continues after its handler has returned
	w.Header().Set(RevisionHeader, strconv.FormatInt(int64(revision), 10))
	if !v.time.IsZero() {
		w.Header().Set(TimeHeader, v.time.UTC().Format(time.RFC3339))
		r = r.WithContext(simulation.With(ctx, simulation.New(simulation.Config{Time: v.time})))
	}
	resolved := v.handler.Resolve(info)
	if connects(resolved) {
		return readOnlyError(info)
	}
	request.SetRoute(ctx, resolved)
	v.handler.ServeHTTP(w, r)
	return nil
}

// connects reports whether a route connects to another program, such as a kubelet, which has only the
// present state.
func connects(resolved request.Route) bool {
	r, ok := resolved.(*route.Route)
	if !ok || r.Resource == nil {
		return false
	}
	_, ok = r.Resource.Storage.(rest.Connecter)
	return ok
}

// readOnlyError returns the error for a request that does more than read an earlier state, such as a write.
func readOnlyError(info *request.Info) error {
	err := apierrors.NewMethodNotSupported(schema.GroupResource{Group: info.Group, Resource: info.Resource}, info.Verb)
	err.ErrStatus.Message = "the past cannot be changed: requests below " + momentPrefix + " are read-only"
	return err
}

// authorize checks the permission HistoryVerb for a resource. The filters have checked the permission for the
// request itself. Discovery and OpenAPI documents require no additional permission.
func (p *past) authorize(ctx context.Context, info *request.Info) error {
	if !info.IsResource {
		if discovery.Handles(info.Path) || strings.HasPrefix(info.Path, "/openapi/") {
			return nil
		}
		return apierrors.NewNotFound(schema.GroupResource{}, info.Path)
	}
	resource := schema.GroupResource{Group: info.Group, Resource: info.Resource}
	if _, separate := storageOverrides(p.settings.env.Storage.Overrides)[resource]; separate {
		return apierrors.NewBadRequest(resource.String() + " have a separate store, whose history is not recorded")
	}
	attributes := authorizer.AttributesOf(request.UserFrom(ctx), info)
	attributes.Verb = HistoryVerb
	decision, reason, err := p.authorization.authorizer.Authorize(ctx, &attributes)
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return apierrors.NewInternalError(err)
	}
	return authorizer.Forbidden(&attributes, reason)
}

// momentError converts an error of reading an earlier state to an API error.
func momentError(err error) error {
	switch {
	case errors.Is(err, errMoment), errors.Is(err, kv.ErrFutureRevision):
		return apierrors.NewBadRequest(err.Error())
	case errors.Is(err, kv.ErrCompacted):
		return apierrors.NewResourceExpired(err.Error())
	case errors.Is(err, kv.ErrUnavailable):
		return apierrors.NewServiceUnavailable(err.Error())
	}
	return err
}

// acquire returns the view of a revision, which it opens if necessary. The caller must call release.
func (p *past) acquire(ctx context.Context, revision kv.Revision) (*view, error) {
	p.mu.Lock()
	v := p.views[revision]
	if v == nil {
		if len(p.views) >= maxViews && !p.closeOldestLocked() {
			p.mu.Unlock()
			return nil, apierrors.NewTooManyRequests("too many earlier states are in use", 1)
		}
		v = newView(p, revision)
		p.views[revision] = v
	}
	v.users++
	p.mu.Unlock()
	if err := v.open(ctx); err != nil {
		p.release(v)
		return nil, err
	}
	return v, nil
}

// release ends the use of a view that acquire has returned. A view that could not be opened is dropped, so that
// the next request tries again.
func (p *past) release(v *view) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v.users--
	v.used = time.Now()
	if v.users == 0 && v.handler == nil {
		p.closeLocked(v)
	}
}

// closeOldestLocked closes the view that has been unused for the longest time. It returns false if all views
// are in use.
func (p *past) closeOldestLocked() bool {
	var oldest *view
	for _, v := range p.views {
		if v.users == 0 && (oldest == nil || v.used.Before(oldest.used)) {
			oldest = v
		}
	}
	if oldest == nil {
		return false
	}
	p.closeLocked(oldest)
	return true
}

func (p *past) closeLocked(v *view) {
	delete(p.views, v.revision)
	v.cancel()
}

// run closes unused views until ctx ends, and then all views.
func (p *past) run(ctx context.Context) error {
	ticker := time.NewTicker(viewIdle / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			p.closeIdle(0)
			return nil
		case <-ticker.C:
			p.closeIdle(viewIdle)
		}
	}
}

// closeIdle closes the views that have been unused for at least idle.
func (p *past) closeIdle(idle time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.views {
		if v.users == 0 && time.Since(v.used) >= idle {
			p.closeLocked(v)
		}
	}
}
