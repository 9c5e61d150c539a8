// Package filters holds what every request passes before its body is read: one
// filter per file, each of which knows one thing. Package server puts them in
// order. Who asks and whether they may is found out in authn and authz, by
// whose answers the filters here act. No filter knows a resource or answers for
// one.
//
// Imports: authorizer, filters/authn, request, telemetry.
package filters

import (
	"net/http"
	"slices"
	"strings"

	"mainstay.dev/mainstay/request"
)

// Filter wraps a handler in one concern.
type Filter func(http.Handler) http.Handler

// Chain returns a handler that passes a request through filters in the order
// given and then to final.
func Chain(final http.Handler, filters ...Filter) http.Handler {
	for _, filter := range slices.Backward(filters) {
		final = filter(final)
	}
	return final
}

// ErrorWriter answers a request with an error, as a Status in the media type
// that the client accepts. Filters set further headers before they call it.
type ErrorWriter func(w http.ResponseWriter, r *http.Request, err error)

// LongRunning reports whether a request is long-running by what kube-apiserver
// goes by: watches, and subresources of these names. It is all that can be known
// of the resources of other servers; for its own, a control plane asks the
// resource. The filters go by request.LongRunning, which RequestInfo sets.
func LongRunning(info *request.Info) bool {
	if info == nil {
		return false
	}
	if !info.IsResource {
		// A profile takes the time it was asked to, a copy what the store's size asks.
		return strings.HasPrefix(info.Path, "/debug/pprof/") || info.Path == "/mainstay/v1/snapshot"
	}
	if info.Verb == "watch" {
		return true
	}
	switch info.Subresource {
	case "attach", "exec", "portforward", "proxy", "log":
		return true
	}
	return false
}
