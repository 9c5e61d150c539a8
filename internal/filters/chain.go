// Package filters contains the filters through which every request passes before its body is read, one per
// file. Package controlplane determines their order. Packages authn and authz implement authentication and
// authorization; the filters in this package respond according to their results.
//
// The state of a request is in three places. RequestInfo creates the context of the request
// (package request), which contains its Info, its Route and the data that later filters add. A
// response wraps the http.ResponseWriter and contains the status, size and cleanups. The state of a
// single filter is in a value that the filter registers as a cleanup.
package filters

import (
	"net/http"
	"slices"
)

// Filter wraps a handler. The returned handler is called concurrently. The handler of a watch
// returns before its response is complete (see response.Detach), so a filter must release
// per-request state with response.addCleanup instead of defer.
type Filter func(http.Handler) http.Handler

// filterFunc returns a Filter that calls pass before the next handler. If pass returns false, it
// must have written a response, and the next handler is not called. The stack frame of pass is
// released before the next handler runs.
func filterFunc(pass func(http.ResponseWriter, *http.Request) bool) Filter {
	return func(next http.Handler) http.Handler { return &filterFuncHandler{pass, next} }
}

type filterFuncHandler struct {
	pass func(http.ResponseWriter, *http.Request) bool
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (p *filterFuncHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.pass(w, r) {
		p.next.ServeHTTP(w, r)
	}
}

// Chain returns a handler that passes a request through the filters in order, and then to final.
func Chain(final http.Handler, filters ...Filter) http.Handler {
	for _, filter := range slices.Backward(filters) {
		final = filter(final)
	}
	return final
}

// ErrorWriter writes err as a metav1.Status in a media type that the client accepts. Errors that
// are not API errors result in a 500. Callers may set response headers before the call. It is
// called concurrently.
type ErrorWriter func(w http.ResponseWriter, r *http.Request, err error)
