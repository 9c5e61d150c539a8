package request

import "context"

// Route is the destination of a request. Package endpoints/route implements it and looks up the destination
// once, after the request line has been parsed. The filters and the final handler use the same Route. The
// methods of a Route always return the same values.
type Route interface {
	// Known reports whether this server serves the resource or path of the request. Only known names may become
	// metric labels, because clients can send an unlimited number of other names.
	Known() bool
	// LongRunning reports whether the client determines the duration of the request.
	LongRunning() bool
}

// SetRoute records the route of the request. Like the other Set functions, it must not run
// concurrently with readers of the context.
func SetRoute(ctx context.Context, route Route) {
	if s := scopeFrom(ctx); s != nil {
		s.route = route
	}
}

// RouteFrom returns the route of the request; nil if no route was set, and outside a request.
func RouteFrom(ctx context.Context) Route {
	if s := scopeFrom(ctx); s != nil {
		return s.route
	}
	return nil
}
