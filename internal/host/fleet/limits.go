package fleet

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/limits/yield"
	"mainstay.dev/mainstay/internal/request"
)

// limiter applies the limits of a control plane. It is safe for concurrent use.
type limiter struct {
	usage usage
	rate  *rate.Limiter

	watches    atomic.Int64
	maxWatches atomic.Int64 // 0 means no limit

	mu struct {
		sync.Mutex
		objects, bytes int64 // maximums; 0 means no limit
		seats          int64 // maximum number of concurrent requests
		defaultSeats   bool  // seats is the default, because spec.limits.concurrentRequests is not set
		// requests is the semaphore of concurrent requests. It is replaced when seats changes.
		requests *semaphore.Weighted
	}
	waiting atomic.Int64 // requests that wait for the semaphore

	// requested counts all requests, and rejected the requests and writes that exceeded a limit.
	requested, rejected atomic.Int64
}

// defaultConcurrentRequests returns the maximum number of concurrent requests of a control plane that does not
// set spec.limits.concurrentRequests. Priority and fairness cannot limit the memory and the storage requests of
// a control plane, because its administrators are members of system:masters and therefore exempt.
func defaultConcurrentRequests() int64 { return int64(8 * runtime.GOMAXPROCS(0)) }

// waitingPerSeat is the maximum number of waiting requests per permitted concurrent request.
const waitingPerSeat = 32

func newLimiter() *limiter { return &limiter{rate: rate.NewLimiter(rate.Inf, 0)} }

// set applies new limits. Requests in progress are not affected.
func (l *limiter) set(limits *controlplanes.Limits) {
	l.maxWatches.Store(int64(limits.Watches))
	if n := int(limits.RequestsPerSecond); n > 0 {
		l.rate.SetBurst(n)
		l.rate.SetLimit(rate.Limit(n))
	} else {
		l.rate.SetLimit(rate.Inf)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.objects, l.mu.bytes = limits.Objects, 0
	if limits.Bytes != nil {
		l.mu.bytes = limits.Bytes.Value()
	}
	seats := int64(limits.ConcurrentRequests)
	if l.mu.defaultSeats = seats == 0; l.mu.defaultSeats {
		seats = defaultConcurrentRequests()
	}
	if l.mu.requests == nil || l.mu.seats != seats {
		l.mu.seats, l.mu.requests = seats, semaphore.NewWeighted(seats)
	}
}

// tooMany returns an API error with code 429, which asks the client to retry after 1 s.
func tooMany(format string, args ...any) error {
	return apierrors.NewTooManyRequests(fmt.Sprintf(format, args...), 1)
}

// filter limits the rate of requests, watches and concurrent requests. It implements filters.Filter.
func (l *limiter) filter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.requested.Add(1)
		release, err := l.admit(r.Context())
		if err != nil {
			if r.Context().Err() == nil {
				l.rejected.Add(1)
			}
			endpoints.WriteStatus(w, r, endpoints.StatusOf(err))
			return
		}
		defer release()
		next.ServeHTTP(w, r)
	})
}

// admit blocks until a request may be served. The caller must call release when the handler returns. admit
// returns an API error with code 429 if a limit is exceeded, and the error of ctx if ctx ends.
func (l *limiter) admit(ctx context.Context) (release func(), err error) {
	if !l.rate.Allow() {
		return nil, tooMany("the control plane has reached spec.limits.requestsPerSecond=%d", l.rate.Burst())
	}
	switch {
	case request.InfoFrom(ctx).Verb == "watch" && request.LongRunning(ctx):
		return func() {}, l.admitWatch(ctx)
	case request.LongRunning(ctx):
		return func() {}, nil
	}
	l.mu.Lock()
	requests, seats, isDefault := l.mu.requests, l.mu.seats, l.mu.defaultSeats
	l.mu.Unlock()
	if requests.TryAcquire(1) {
		return func() { requests.Release(1) }, nil
	}
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > seats*waitingPerSeat {
		return nil, tooManyWait(seats, isDefault)
	}
	if err := requests.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	yield.ToNewRequests()
	return func() { requests.Release(1) }, nil
}

// tooManyWait returns the API error for a request that cannot wait because too many others wait. isDefault is
// true if the ControlPlane object does not set the limit, so the message names the field that sets it.
func tooManyWait(seats int64, isDefault bool) error {
	if isDefault {
		return tooMany("the control plane serves %d requests, the default limit, and too many others wait; "+
			"spec.limits.concurrentRequests in its ControlPlane object can set a higher limit", seats)
	}
	return tooMany("the control plane serves spec.limits.concurrentRequests=%d requests, and too many others wait", seats)
}

// admitWatch counts a watch until ctx ends. It returns an API error with code 429 if the limit is reached.
func (l *limiter) admitWatch(ctx context.Context) error {
	limit := l.maxWatches.Load()
	if l.watches.Add(1) > limit && limit > 0 {
		l.watches.Add(-1)
		return tooMany("the control plane has reached spec.limits.watches=%d", limit)
	}
	context.AfterFunc(ctx, func() { l.watches.Add(-1) })
	return nil
}

// Allow implements controlplane.ObjectLimits. Concurrent writes can exceed a limit slightly.
func (l *limiter) Allow(create bool) error {
	l.mu.Lock()
	maxObjects, maxBytes := l.mu.objects, l.mu.bytes
	l.mu.Unlock()
	objects, bytes := l.usage.get()
	switch {
	case create && maxObjects > 0 && objects >= maxObjects:
		l.rejected.Add(1)
		return exceeded("objects", objects, maxObjects)
	case maxBytes > 0 && bytes >= maxBytes:
		l.rejected.Add(1)
		return exceeded("bytes", bytes, maxBytes)
	}
	return nil
}

func exceeded(name string, used, limit int64) error {
	return apierrors.NewForbidden(controlplanes.Resource().GroupResource(), "",
		fmt.Errorf("the control plane has reached spec.limits.%s=%d, it uses %d; delete objects or ask for a higher limit", name, limit, used))
}
