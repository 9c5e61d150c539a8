package filters

import (
	"context"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/request"
)

// RequestInfo returns a filter that parses the request line and resolves the route once per request. It adds
// the request.Info and the request.Route to the context, and makes the context of a long-running request
// cancellable. resolve must not return nil, must not block, and is called concurrently. Requests with an
// invalid request line are rejected with 400.
func RequestInfo(resolve func(*request.Info) request.Route, onError ErrorWriter) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r, err := withInfo(w, r, resolve)
			if err != nil {
				onError(w, r, apierrors.NewBadRequest(err.Error()))
				return
			}
			response := wrap(w)
			response.ctx = r.Context()
			next.ServeHTTP(response, r)
		})
	}
}

// withInfo returns the request with its request.Info and route in its context. If the request line
// is invalid, it returns an error and the request with its Info, but without a route.
func withInfo(w http.ResponseWriter, r *http.Request, resolve func(*request.Info) request.Route) (*http.Request, error) {
	info, err := request.Parse(r)
	ctx, cancel := r.Context(), context.CancelCauseFunc(nil)
	var route request.Route
	if err == nil {
		route = resolve(&info)
	}
	if route != nil && route.LongRunning() {
		ctx, cancel = cancellable(ctx, w)
	}
	ctx = request.NewContext(ctx, &info, time.Now())
	request.SetRoute(ctx, route)
	request.SetAuditID(ctx, auditIDOf(w))
	request.SetOriginal(ctx, r)
	request.SetLongRunning(ctx, cancel)
	return r.WithContext(ctx), err
}

// canceller is a ResponseWriter that can cancel the context of its request. The ResponseWriter of
// package http2 implements it, which saves one context per watch.
type canceller interface{ Cancel(cause error) }

// cancellable returns a context that can be canceled with a cause, and its cancel function. If w is
// a canceller, the context is ctx itself.
func cancellable(ctx context.Context, w http.ResponseWriter) (context.Context, context.CancelCauseFunc) {
	if c, ok := wrap(w).ResponseWriter.(canceller); ok {
		return ctx, c.Cancel
	}
	return context.WithCancelCause(ctx) // canceled with ctx
}
