package request

import (
	"context"
	"strings"
)

// LongRunningByName reports whether a request is long-running according to kube-apiserver's rule,
// which is based on the verb watch and the names of some subresources. The rule is used for
// resources of other servers and for non-resource paths. The resources of this server declare
// whether they are long-running (rest.Connection). A nil info is not long-running.
func LongRunningByName(info *Info) bool {
	if info == nil {
		return false
	}
	if !info.IsResource {
		// The query parameter seconds determines the duration of a profile; the duration of a snapshot
		// depends on the size of the store.
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

// LongRunning reports whether the client determines the duration of the request
// (Route.LongRunning). Such a request has no deadline, is exempt from MaxInFlight and FlowControl,
// and ends when the server stops. However, FlowControl limits watches until they have sent their
// initial events. Outside a request, LongRunning returns false.
func LongRunning(ctx context.Context) bool {
	s := scopeFrom(ctx)
	return s != nil && s.cancel != nil
}

// SetLongRunning marks the request as long-running and records the function that cancels its
// context.
func SetLongRunning(ctx context.Context, cancel context.CancelCauseFunc) {
	if s := scopeFrom(ctx); s != nil {
		s.cancel = cancel
	}
}

// Cancel cancels the context of a long-running request with a cause. It is safe for concurrent use
// and has no effect on other requests or outside a request.
func Cancel(ctx context.Context, cause error) {
	if s := scopeFrom(ctx); s != nil && s.cancel != nil {
		s.cancel(cause)
	}
}
