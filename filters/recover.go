package filters

import (
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Recover answers a request whose handler panics with an internal error and
// logs the stack; where the answer has begun already, the client sees it break
// off. http.ErrAbortHandler is passed on: handlers abort a response with it.
func Recover(logger *slog.Logger, onError ErrorWriter) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			response := wrap(w)
			defer func() {
				reason := recover()
				if reason == nil {
					return
				}
				if reason == http.ErrAbortHandler {
					panic(reason)
				}
				logger.ErrorContext(r.Context(), "handler panicked", "panic", reason, "method", r.Method, "path", r.URL.Path,
					"audit-ID", auditIDOf(w), "stack", string(debug.Stack()))
				if response.status != 0 {
					panic(http.ErrAbortHandler)
				}
				onError(response, r, apierrors.NewInternalError(errors.New("this request caused the server to panic; its log tells more")))
			}()
			next.ServeHTTP(response, r)
		})
	}
}
