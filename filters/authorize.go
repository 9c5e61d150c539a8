package filters

import (
	"context"
	"log/slog"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/authorizer"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/telemetry"
)

// Authorize lets pass what the authorizer allows and answers all else with 403.
func Authorize(by authorizer.Authorizer, logger *slog.Logger, onError ErrorWriter) Filter {
	authorized := func(w http.ResponseWriter, r *http.Request) bool {
		ctx := r.Context()
		attributes := authorizer.AttributesOf(request.UserFrom(ctx), request.InfoFrom(ctx))
		decision, reason, err := by.Authorize(ctx, &attributes)
		if decision == authorizer.DecisionAllow {
			annotate(ctx, "allow", reason)
			return true
		}
		if err != nil {
			logger.LogAttrs(ctx, slog.LevelError, "authorize the request", slog.Any("err", err), slog.String("audit-ID", request.AuditID(ctx)))
			if decision != authorizer.DecisionDeny {
				_ = request.Annotate(ctx, reasonAnnotation, "internal error") // or there is no room for it
				onError(w, r, apierrors.NewInternalError(err))
				return false
			}
		}
		annotate(ctx, "forbid", reason)
		logger.LogAttrs(ctx, telemetry.Verbosity(4), "forbidden", slog.String("URI", r.RequestURI), slog.String("reason", reason))
		w.Header().Set("X-Content-Type-Options", "nosniff")
		onError(w, r, authorizer.Forbidden(&attributes, reason))
		return false
	}
	return passing(authorized)
}

// Audit annotations of a decision.
const (
	decisionAnnotation = "authorization.k8s.io/decision"
	reasonAnnotation   = "authorization.k8s.io/reason"
)

// annotate records a decision; the request goes on if there is no room for it.
func annotate(ctx context.Context, decision, reason string) {
	_ = request.Annotate(ctx, decisionAnnotation, decision)
	_ = request.Annotate(ctx, reasonAnnotation, reason)
}
