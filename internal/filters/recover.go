package filters

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/request"
)

// Recover returns a filter that runs the cleanups that other filters have registered, after a
// request has been served. If the handler panics, Recover logs the stack and responds with an
// internal error, or aborts the response if it has already started. It does not stop a panic with
// http.ErrAbortHandler, because handlers use this value to abort a response.
func Recover(logger *slog.Logger, onError ErrorWriter) Filter {
	return func(next http.Handler) http.Handler { return &recovery{logger, onError, next} }
}

type recovery struct {
	logger  *slog.Logger
	onError ErrorWriter
	next    http.Handler
}

// ServeHTTP implements http.Handler.
func (f *recovery) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	response := wrap(w)
	defer func() {
		reason := recover()
		if reason == nil && response.detached != nil {
			f.detach(response)
			return
		}
		response.runCleanups(reason)
		if reason != nil {
			f.handle(r.Context(), response, reason, "method", r.Method, "path", r.URL.Path, "audit-ID", auditIDOf(response))
			f.onError(response, r, apierrors.NewInternalError(errors.New("this request caused the server to panic; see the server's log")))
		}
	}()
	f.next.ServeHTTP(response, r)
}

// detach continues the response after the handler has returned, without retaining the request.
func (f *recovery) detach(response *response) {
	do := response.detached
	response.ResponseWriter.(detacher).Detach(func() (done bool) {
		defer func() {
			reason := recover()
			if reason == nil && !done {
				return
			}
			response.runCleanups(reason)
			if reason != nil {
				ctx := response.ctx
				f.handle(ctx, response, reason, "verb", request.InfoFrom(ctx).Verb, "path", request.InfoFrom(ctx).Path, "audit-ID", request.AuditID(ctx))
			}
		}()
		return do()
	})
}

// handle logs a panic with attributes that describe the request. It returns only if an error
// response can still be written; otherwise, it panics with http.ErrAbortHandler.
func (f *recovery) handle(ctx context.Context, response *response, reason any, attrs ...any) {
	if reason == http.ErrAbortHandler {
		panic(reason)
	}
	f.logger.ErrorContext(ctx, "handler panicked", append(attrs, "panic", reason, "stack", string(debug.Stack()))...)
	if response.status != 0 {
		panic(http.ErrAbortHandler)
	}
}
