package request

import "context"

// LongRunning reports whether the request lasts as long as its client wants: it
// has no deadline, no share in the limits of requests in flight, and is ended
// when the server stops. Outside a request it is false.
func LongRunning(ctx context.Context) bool {
	s := from(ctx)
	return s != nil && s.longRunning
}

// SetLongRunning records whether the request is long-running.
func SetLongRunning(ctx context.Context, longRunning bool) {
	if s := from(ctx); s != nil {
		s.longRunning = longRunning
	}
}
