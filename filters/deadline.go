package filters

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/request"
)

// Deadline ends requests that take longer than max, or than their ?timeout=,
// whichever is less. The handler learns of it by its context; a handler that is
// waiting for the request's body, or for the client to take the response, is
// woken up. Requests that have not been answered by then get a 504; answers
// under way break off.
//
// Handlers run on the goroutine of their request all the time: there is none to
// be left behind, and none to be paid for.
func Deadline(max time.Duration, onError ErrorWriter) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if LongRunning(request.InfoFrom(r.Context())) {
				next.ServeHTTP(w, r)
				return
			}
			timeout, err := timeoutOf(r.URL, max)
			if err != nil {
				onError(w, r, apierrors.NewBadRequest(err.Error()))
				return
			}
			ctx, cancel := context.WithDeadline(r.Context(), request.Received(r.Context()).Add(timeout))
			defer cancel()
			response := wrap(w)
			var waker waker
			stop := context.AfterFunc(ctx, func() { waker.wake(ctx, r, response) })
			timed := r.WithContext(ctx)
			next.ServeHTTP(response, timed)
			stop()
			waker.finish(ctx, timed, response, onError)
		})
	}
}

// ErrTimeout is the answer to a request that took too long.
func ErrTimeout() error {
	return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
}

// writeGrace is how long the answer to a request that has timed out may take to
// be sent.
const writeGrace = 5 * time.Second

// waker interrupts the I/O of a handler at its deadline, unless the handler has
// returned: its ResponseWriter must not be touched then.
type waker struct {
	mu       sync.Mutex
	finished bool
	cutOff   bool // a response under way was broken off
}

func (k *waker) wake(ctx context.Context, r *http.Request, response *response) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.finished || !errors.Is(ctx.Err(), context.DeadlineExceeded) || response.started.Load() == http.StatusSwitchingProtocols {
		return // in another protocol, a connection is its handler's own
	}
	// Errors of the controller only say that this connection cannot be
	// interrupted.
	control := http.NewResponseController(response.ResponseWriter)
	if succeeded(response.started.Load()) {
		k.cutOff = control.SetWriteDeadline(longAgo()) == nil
		return
	}
	_ = control.SetReadDeadline(longAgo())
	if r.ProtoMajor >= 2 { // in HTTP/1 a deadline would outlive the request
		_ = control.SetWriteDeadline(time.Now().Add(writeGrace))
	}
}

func longAgo() time.Time { return time.Unix(1, 0) }

// finish answers for the handler that has just returned, if its time is up.
func (k *waker) finish(ctx context.Context, r *http.Request, response *response, onError ErrorWriter) {
	k.mu.Lock()
	k.finished = true
	k.mu.Unlock()
	if !k.cutOff && !errors.Is(ctx.Err(), context.DeadlineExceeded) || response.status == http.StatusSwitchingProtocols {
		return
	}
	switch {
	case response.status == 0:
		onError(response, r, ErrTimeout())
	case succeeded(int32(response.status)):
		// It may have been cut short, and must not look complete.
		panic(http.ErrAbortHandler)
	}
}

// succeeded tells answers with a result from those with an error and from none.
func succeeded(status int32) bool { return status >= 100 && status < 300 }

// timeoutOf reads ?timeout=. Zero and what exceeds max mean max.
func timeoutOf(u *url.URL, max time.Duration) (time.Duration, error) {
	if !strings.Contains(u.RawQuery, "timeout=") {
		return max, nil
	}
	value := u.Query().Get("timeout")
	if value == "" {
		return max, nil
	}
	timeout, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("invalid timeout specified in the request URL - %w", err)
	}
	if timeout <= 0 || timeout > max {
		return max, nil
	}
	return timeout, nil
}
