package filters

import (
	"net/http"
	"slices"
	"sync/atomic"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/telemetry"
)

// MaxInFlight refuses requests with 429 while as many as the limit are under
// way: one limit for those that only read, one for all others; zero is none.
// Long-running requests do not count, and the administrators' pass always: a
// server must be manageable when it is busiest.
func MaxInFlight(readOnly, mutatingMax int, metrics *telemetry.Requests, onError ErrorWriter) Filter {
	reads, writes := &limit{max: int64(readOnly)}, &limit{max: int64(mutatingMax)}
	return func(next http.Handler) http.Handler {
		if readOnly <= 0 && mutatingMax <= 0 {
			return next
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			info := request.InfoFrom(r.Context())
			if request.LongRunning(r.Context()) {
				next.ServeHTTP(w, r)
				return
			}
			l := reads
			if mutating(info) {
				l = writes
			}
			if !l.begin() && !privileged(request.UserFrom(r.Context())) {
				l.end()
				countTerminated(metrics, r)
				tooManyRequests(w, r, 1, onError)
				return
			}
			defer l.end()
			next.ServeHTTP(w, r)
		})
	}
}

// countTerminated counts a request that is refused because there are too many.
func countTerminated(metrics *telemetry.Requests, r *http.Request) {
	metrics.Terminated(telemetry.Describe(r, request.InfoFrom(r.Context()), false), http.StatusTooManyRequests)
}

func privileged(user *request.User) bool {
	return user != nil && slices.Contains(user.Groups, request.GroupMasters)
}

// limit counts requests in flight. begin counts the request in any case, and
// reports whether it is within the limit.
type limit struct {
	max     int64 // 0: none
	current atomic.Int64
}

func (l *limit) begin() bool { return l.current.Add(1) <= l.max || l.max <= 0 }
func (l *limit) end()        { l.current.Add(-1) }
