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
	return func(next http.Handler) http.Handler { return &recoverer{logger, onError, next} }
}

type recoverer struct {
	logger  *slog.Logger
	onError ErrorWriter
	next    http.Handler
}

// ServeHTTP implements http.Handler.
func (f *recoverer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	response := wrap(w)
	defer f.answer(response, r)
	f.next.ServeHTTP(response, r)
}

// answer is deferred. It answers for a handler that panics.
func (f *recoverer) answer(response *response, r *http.Request) {
	reason := recover()
	if reason == nil {
		return
	}
	if reason == http.ErrAbortHandler {
		panic(reason)
	}
	f.logger.ErrorContext(r.Context(), "handler panicked", "panic", reason, "method", r.Method, "path", r.URL.Path,
		"audit-ID", auditIDOf(response), "stack", string(debug.Stack()))
	if response.status != 0 {
		panic(http.ErrAbortHandler)
	}
	f.onError(response, r, apierrors.NewInternalError(errors.New("this request caused the server to panic; its log tells more")))
}
