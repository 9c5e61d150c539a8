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

// ViewFunc returns the namespaces that a user may list or watch, for a list or watch over all
// namespaces. The view is valid until close is called. It is nil if the user has no such namespace,
// and for other requests.
type ViewFunc func(ctx context.Context, attributes *authorizer.Attributes) (view request.Visibility, close func())

// Authorize passes requests that the authorizer allows, and responds to other requests with 403. If
// view is not nil, users without permission for all namespaces list only the namespaces of the
// view.
func Authorize(by authorizer.Authorizer, view ViewFunc, logger *slog.Logger, onError ErrorWriter) Filter {
	a := &authorization{by, view, logger, onError}
	if view == nil {
		return passing(func(w http.ResponseWriter, r *http.Request) bool {
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

// viewCloser closes the view of a request after the request.
type viewCloser func()

// cleanup implements cleaner.
func (c viewCloser) cleanup(*response, any) { c() }

type authorization struct {
	by      authorizer.Authorizer
	view    ViewFunc
	logger  *slog.Logger
	onError ErrorWriter
}

// decide reports whether a request is allowed; it responds to others. close is called after the
// request.
func (a *authorization) decide(w http.ResponseWriter, r *http.Request) (close func(), pass bool) {
	close = func() {}
	ctx := r.Context()
	attributes := authorizer.AttributesOf(request.UserFrom(ctx), request.InfoFrom(ctx))
	decision, reason, err := a.by.Authorize(ctx, &attributes)
	if a.view != nil && err == nil && decision != authorizer.DecisionDeny && overNamespaces(request.InfoFrom(ctx)) {
		var limited bool
		if close, limited = restrict(ctx, &attributes, decision, a.view); limited {
			decision, reason = authorizer.DecisionAllow, limitedReason
		}
	}
	if decision == authorizer.DecisionAllow {
		annotate(ctx, "allow", reason)
		return close, true
	}
	a.refuse(w, r, &attributes, reason, err)
	return close, false
}

// refuse rejects a request.
func (a *authorization) refuse(w http.ResponseWriter, r *http.Request, attributes *authorizer.Attributes, reason string, err error) {
	ctx := r.Context()
	if err != nil {
		a.logger.LogAttrs(ctx, slog.LevelError, "authorize the request", slog.Any("err", err), slog.String("audit-ID", request.AuditID(ctx)))
		_ = request.Annotate(ctx, reasonAnnotation, "internal error") // a full audit event is not an error
		a.onError(w, r, apierrors.NewInternalError(err))
		return
	}
	annotate(ctx, "forbid", reason)
	a.logger.LogAttrs(ctx, telemetry.Verbosity(4), "forbidden", slog.String("URI", r.RequestURI), slog.String("reason", reason))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	a.onError(w, r, authorizer.Forbidden(attributes, reason))
}

// Audit annotations of a decision.
const (
	decisionAnnotation = "authorization.k8s.io/decision"
	reasonAnnotation   = "authorization.k8s.io/reason"
)

// annotate records a decision in the audit event; a full event does not fail the request.
func annotate(ctx context.Context, decision, reason string) {
	_ = request.Annotate(ctx, decisionAnnotation, decision)
	_ = request.Annotate(ctx, reasonAnnotation, reason)
}

// limitedReason is the reason of the decision for a request that is allowed in some namespaces.
const limitedReason = "RBAC: allowed in some namespaces, which --list-visible lists"

// overNamespaces reports whether a request may be for the objects of all namespaces.
func overNamespaces(info *request.Info) bool {
	return info.IsResource && (info.Verb == "list" || info.Verb == "watch") &&
		info.Namespace == "" && info.Subresource == "" && !info.NameInPath
}

// restrict adds a view to the request's context, and reports whether it limits the request. A
// request with permission for all namespaces by the view also has it, because a watch is limited
// when the permission is lost.
func restrict(ctx context.Context, attributes *authorizer.Attributes, decision authorizer.Decision, view ViewFunc) (close func(), limited bool) {
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
