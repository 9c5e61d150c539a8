package request

import "context"

// LongRunning reports whether the client determines the duration of the request. Such a request has
// no deadline, does not count as in flight, and ends when the server stops. Outside a request, it
// returns false.
func LongRunning(ctx context.Context) bool {
	s := from(ctx)
	return s != nil && s.cancel != nil
}

// SetLongRunning marks the request as long-running and records the function that cancels its
// context.
func SetLongRunning(ctx context.Context, cancel context.CancelCauseFunc) {
	if s := from(ctx); s != nil {
		s.cancel = cancel
	}
}

// Cancel cancels the context of a long-running request with a cause. It is safe for concurrent use
// and has no effect on other requests or outside a request.
func Cancel(ctx context.Context, cause error) {
	if s := from(ctx); s != nil && s.cancel != nil {
		s.cancel(cause)
	}
}
