package request

import "context"

// OnWatchInitialized sets what is called once the initial events of the watch
// that the request is for have been sent: it costs no more from then on than what
// changes. A filter that sets it must not rely on it: a request that is refused
// ends without.
func OnWatchInitialized(ctx context.Context, hook func()) {
	if s := from(ctx); s != nil {
		s.watchInitialized.Store(&hook)
	}
}

// WatchInitialized calls what OnWatchInitialized has set, the first time that it
// is called. It is safe for concurrent use; outside a request it does nothing.
func WatchInitialized(ctx context.Context) {
	s := from(ctx)
	if s == nil {
		return
	}
	if hook := s.watchInitialized.Swap(nil); hook != nil {
		(*hook)()
	}
}
