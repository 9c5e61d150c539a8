package filters

import (
	"context"
	"log/slog"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/telemetry"
)

// ViewFunc returns a view of the namespaces in which a user may perform a list or watch of all
// namespaces. view is nil if there is no such namespace, and for all other requests. close may then
// be nil and is not called. Otherwise, the caller must call close when it no longer uses the view.
// A ViewFunc is called concurrently.
type ViewFunc func(ctx context.Context, attributes *authorizer.Attributes) (view request.Visibility, close func())

// Authorize returns a filter that lets a request through if the authorizer allows it. Otherwise, the filter
// responds with 403, or with 500 if the authorizer fails. If view is not nil and a user may not list or watch
// all namespaces, such a request is limited to the namespaces of the user's view.
func Authorize(by authorizer.Authorizer, view ViewFunc, logger *slog.Logger, onError ErrorWriter) Filter {
	a := &authorization{by, view, logger, onError}
	if view == nil {
		return filterFunc(func(w http.ResponseWriter, r *http.Request) bool {
			_, pass := a.decide(w, r)
			return pass
		})
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close, pass := a.decide(w, r)
			response := wrap(w)
			response.addCleanup(viewCloser(close))
			if pass {
				next.ServeHTTP(response, r)
			}
		})
	}
}

// viewCloser closes the view of a request when the request ends.
type viewCloser func()

// cleanup implements cleaner.
func (c viewCloser) cleanup(*response, any) { c() }

type authorization struct {
	authorizer authorizer.Authorizer
	view       ViewFunc
	logger     *slog.Logger
	onError    ErrorWriter
}

// decide reports whether the request is allowed. If not, it has written the error response. close
// is never nil and must be called after the request.
func (a *authorization) decide(w http.ResponseWriter, r *http.Request) (close func(), pass bool) {
	close = func() {}
	ctx := r.Context()
	attributes := authorizer.AttributesOf(request.UserFrom(ctx), request.InfoFrom(ctx))
	decision, reason, err := a.authorizer.Authorize(ctx, &attributes)
	if a.view != nil && err == nil && decision != authorizer.DecisionDeny && spansNamespaces(request.InfoFrom(ctx)) {
		var limited bool
		if close, limited = addView(ctx, &attributes, decision, a.view); limited {
			decision, reason = authorizer.DecisionAllow, limitedReason
		}
	}
	if decision == authorizer.DecisionAllow {
		annotateDecision(ctx, "allow", reason)
		return close, true
	}
	a.reject(w, r, &attributes, reason, err)
	return close, false
}

func (a *authorization) reject(w http.ResponseWriter, r *http.Request, attributes *authorizer.Attributes, reason string, err error) {
	ctx := r.Context()
	if err != nil {
		a.logger.LogAttrs(ctx, slog.LevelError, "authorize the request", slog.Any("err", err), slog.String("audit-ID", request.AuditID(ctx)))
		_ = request.Annotate(ctx, reasonAnnotation, "internal error") // fails only if the event is full
		a.onError(w, r, apierrors.NewInternalError(err))
		return
	}
	annotateDecision(ctx, "forbid", reason)
	a.logger.LogAttrs(ctx, telemetry.Verbosity(4), "forbidden", slog.String("URI", r.RequestURI), slog.String("reason", reason))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	a.onError(w, r, authorizer.Forbidden(attributes, reason))
}

// Audit annotations of a decision.
const (
	decisionAnnotation = "authorization.k8s.io/decision"
	reasonAnnotation   = "authorization.k8s.io/reason"
)

// annotateDecision records a decision in the audit event. Errors are ignored, because a full event
// must not make the request fail.
func annotateDecision(ctx context.Context, decision, reason string) {
	_ = request.Annotate(ctx, decisionAnnotation, decision)
	_ = request.Annotate(ctx, reasonAnnotation, reason)
}

// limitedReason is the authorization reason for a request that is limited to a view.
const limitedReason = "RBAC: allowed in some namespaces, which --list-visible lists"

// spansNamespaces reports whether a request lists or watches the objects of all namespaces.
func spansNamespaces(info *request.Info) bool {
	return info.IsResource && (info.Verb == "list" || info.Verb == "watch") &&
		info.Namespace == "" && info.Subresource == "" && !info.NameInPath
}

// addView adds a view to the request's context, and reports whether the view limits the request.
// The view is also added if it includes all namespaces, so that a watch is limited when the user
// loses this permission.
func addView(ctx context.Context, attributes *authorizer.Attributes, decision authorizer.Decision, view ViewFunc) (close func(), limited bool) {
	v, close := view(ctx, attributes)
	if v == nil {
		return func() {}, false
	}
	if everywhere := v.Now() == nil; decision != authorizer.DecisionAllow || everywhere {
		request.SetVisibility(ctx, v)
		limited = decision != authorizer.DecisionAllow
	}
	return close, limited
}
