package filters

import (
	"log/slog"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/authorizer"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/telemetry"
)

// Authorize lets pass what the authorizer allows and answers all else with 403.
func Authorize(by authorizer.Authorizer, logger *slog.Logger, onError ErrorWriter) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			attributes := authorizer.AttributesOf(request.UserFrom(ctx), request.InfoFrom(ctx))
			decision, reason, err := by.Authorize(ctx, &attributes)
			if decision == authorizer.DecisionAllow {
				next.ServeHTTP(w, r)
				return
			}
			if err != nil {
				logger.LogAttrs(ctx, slog.LevelError, "authorize the request", slog.Any("err", err), slog.String("audit-ID", request.AuditID(ctx)))
				if decision != authorizer.DecisionDeny {
					onError(w, r, apierrors.NewInternalError(err))
					return
				}
			}
			logger.LogAttrs(ctx, telemetry.Verbosity(4), "forbidden", slog.String("URI", r.RequestURI), slog.String("reason", reason))
			w.Header().Set("X-Content-Type-Options", "nosniff")
			onError(w, r, authorizer.Forbidden(&attributes, reason))
		})
	}
}
