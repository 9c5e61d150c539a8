// Package filters has the filters that every request passes before its body is
// read, one per file. Package controlplane puts them in order. Authentication and
// authorization themselves are in authn and authz; filters here act on their
// results. No filter serves a resource.
package filters

import (
	"net/http"
	"slices"
)

// Filter wraps a handler. A handler may return before its response is complete (a watch does, see
// response.Detach), so a filter must release per-request state with response.atEnd.
type Filter func(http.Handler) http.Handler

// passing returns the filter that passes requests for which the function returns true; the function
// responds to others. Its stack is released before the request is served.
func passing(pass func(http.ResponseWriter, *http.Request) bool) Filter {
	return func(next http.Handler) http.Handler { return &passer{pass, next} }
}

type passer struct {
	pass func(http.ResponseWriter, *http.Request) bool
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (p *passer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.pass(w, r) {
		p.next.ServeHTTP(w, r)
	}
}

// Chain returns a handler that passes a request through filters in the order
// given and then to final.
func Chain(final http.Handler, filters ...Filter) http.Handler {
	for _, filter := range slices.Backward(filters) {
		final = filter(final)
	}
	return final
}

// ErrorWriter writes an error as a Status in the media type that the client accepts. Filters set
// further headers before they call it.
type ErrorWriter func(w http.ResponseWriter, r *http.Request, err error)
