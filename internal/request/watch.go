package request

import "context"

// OnWatchInitialized sets a hook that runs after a watch has sent its initial events. From then on,
// the watch causes work only when objects change. The hook does not run if the request is rejected.
func OnWatchInitialized(ctx context.Context, hook func()) {
	if s := scopeFrom(ctx); s != nil {
		s.watchInitialized.Store(&hook)
	}
}

// WatchInitialized runs the hook that was set with OnWatchInitialized, at most once. It is safe for
// concurrent use and has no effect outside a request.
func WatchInitialized(ctx context.Context) {
	s := scopeFrom(ctx)
	if s == nil {
		return
	}
	if hook := s.watchInitialized.Swap(nil); hook != nil {
		(*hook)()
	}
}
