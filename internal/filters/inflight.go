package filters

import (
	"net/http"
	"slices"
	"sync/atomic"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/telemetry"
)

// MaxInFlight returns a filter that limits the number of requests in flight and rejects requests beyond the
// limit with 429. It has separate limits for read-only and for mutating requests; 0 means no limit.
// Long-running requests do not count. Requests of system:masters are counted, but never rejected, because a
// server must remain manageable under load.
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

// countTerminated counts a request that was rejected because of a limit.
func countTerminated(metrics *telemetry.Requests, r *http.Request) {
	metrics.Terminated(telemetry.Describe(r, request.InfoFrom(r.Context()), false), http.StatusTooManyRequests)
}

func privileged(user *request.User) bool {
	return user != nil && slices.Contains(user.Groups, request.GroupMasters)
}

// limit counts requests in flight. begin always counts the request, and reports whether the count
// is within the limit; end must follow in both cases.
type limit struct {
	max     int64 // 0 means no limit
	current atomic.Int64
}

func (l *limit) begin() bool { return l.current.Add(1) <= l.max || l.max <= 0 }
func (l *limit) end()        { l.current.Add(-1) }
