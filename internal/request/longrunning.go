package request

import "context"

// LongRunning reports whether the request lasts as long as its client wants: it
// has no deadline, no share in the limits of requests in flight, and is ended
// when the server stops. Outside a request it is false.
func LongRunning(ctx context.Context) bool {
	s := from(ctx)
	return s != nil && s.cancel != nil
}

// SetLongRunning records that the request is long-running, and what ends its context.
func SetLongRunning(ctx context.Context, cancel context.CancelCauseFunc) {
	if s := from(ctx); s != nil {
		s.cancel = cancel
	}
}

// Cancel ends the context of a long-running request with a cause. It is safe for
// concurrent use; it does nothing to other requests, nor outside a request.
func Cancel(ctx context.Context, cause error) {
	if s := from(ctx); s != nil && s.cancel != nil {
		s.cancel(cause)
	}
}
