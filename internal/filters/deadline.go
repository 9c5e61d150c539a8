package filters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/telemetry"
)

// DeadlineConfig configures Deadline.
type DeadlineConfig struct {
	// Max is the default deadline and the maximum of ?timeout=. Required.
	Max     time.Duration
	Metrics *telemetry.Requests
	Logger  *slog.Logger
	OnError ErrorWriter
	// OnInvalid responds to a request with an invalid ?timeout=; nil selects OnError.
	OnInvalid ErrorWriter
}

// Deadline ends requests after the shorter of Max and their ?timeout=. It cancels the handler's
// context, and interrupts a handler that is reading the request's body or writing the response.
// Requests without a response get 504; responses in progress are aborted. For a handler that
// ignores its context, the 504 is sent shortly afterwards, and the handler continues, counted and
// logged until it returns. Handlers run on the goroutine of their request, which saves one
// goroutine per request.
func Deadline(config DeadlineConfig) Filter {
	if config.OnInvalid == nil {
		config.OnInvalid = config.OnError
	}
	return func(next http.Handler) http.Handler {
		return &deadline{DeadlineConfig: config, next: next}
	}
}

type deadline struct {
	DeadlineConfig
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (d *deadline) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if request.LongRunning(r.Context()) {
		d.next.ServeHTTP(w, r)
	} else {
		d.serve(w, r)
	}
}

// serve serves a request that is not long-running.
func (d *deadline) serve(w http.ResponseWriter, r *http.Request) {
	timeout, err := timeoutOf(r.URL, d.Max)
	if err != nil {
		d.OnInvalid(w, r, apierrors.NewBadRequest(err.Error()))
		return
	}
	ctx, cancel := context.WithDeadline(r.Context(), request.Received(r.Context()).Add(timeout))
	defer cancel()
	k := &waker{config: &d.DeadlineConfig, request: r.WithContext(ctx), response: wrap(w), accept: r.Header["Accept"], agent: r.Header["User-Agent"]}
	k.response.share(&k.lock)
	defer context.AfterFunc(ctx, k.wake)()
	defer k.end(false) // if the handler panics
	d.next.ServeHTTP(k.response, k.request)
	k.finish()
}

// ErrTimeout returns the error of a request that has exceeded its deadline: 504 with reason Timeout.
func ErrTimeout() error {
	return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
}

// writeGrace is the timeout for sending the response to a request that has exceeded its deadline.
const writeGrace = 5 * time.Second

// answerGrace is the time in which a handler can respond after its deadline before the 504 is sent.
const answerGrace = 250 * time.Millisecond

// waker interrupts the I/O of a handler at its deadline, and responds in its place if that has no
// effect, unless the handler has returned: its ResponseWriter must not be used then.
type waker struct {
	config   *DeadlineConfig
	request  *http.Request
	response *response
	// accept and agent are of the request's header, which the handler may change.
	accept, agent []string
	lock          responseLock

	mu       sync.Mutex
	finished bool
	cutOff   bool // a started response was aborted
	left     bool // answer has responded, and the handler has not returned
}

// wake runs in its own goroutine when the context of the request ends. It has no effect if the
// context was canceled before its deadline.
func (k *waker) wake() {
	k.mu.Lock()
	defer k.mu.Unlock()
	started := k.response.started.Load()
	if k.finished || !k.expired() || started == http.StatusSwitchingProtocols {
		return // the handler owns an upgraded connection
	}
	// An error means that this connection cannot be interrupted.
	control := http.NewResponseController(k.response.ResponseWriter)
	if succeeded(started) {
		k.cutOff = control.SetWriteDeadline(longAgo()) == nil
		return
	}
	_ = control.SetReadDeadline(longAgo())
	if k.request.ProtoMajor >= 2 { // in HTTP/1 a deadline would outlive the request
		_ = control.SetWriteDeadline(time.Now().Add(writeGrace))
	}
	if started == 0 {
		time.AfterFunc(answerGrace, k.answer)
	}
}

func (k *waker) expired() bool { return errors.Is(k.request.Context().Err(), context.DeadlineExceeded) }

// answer responds in place of a handler.
func (k *waker) answer() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.finished || k.response.started.Load() != 0 {
		return
	}
	ctx := k.request.Context()
	asked := (&http.Request{
		Method: k.request.Method, URL: k.request.URL, Proto: k.request.Proto, ProtoMajor: k.request.ProtoMajor, ProtoMinor: k.request.ProtoMinor,
		Header: http.Header{"Accept": k.accept, "User-Agent": k.agent},
	}).WithContext(ctx)
	a := &bufferedReply{header: http.Header{}}
	if id := request.AuditID(ctx); id != "" {
		a.header[auditIDHeader] = []string{id}
	}
	k.config.OnError(a, asked, ErrTimeout())
	if k.left = k.response.respondInstead(a); k.left {
		k.note(slog.LevelWarn, "request timed out, and its handler has not returned", telemetry.PostTimeoutPending)
	}
}

func (k *waker) note(level slog.Level, message string, status telemetry.PostTimeout) {
	if k.config.Metrics != nil {
		k.config.Metrics.AfterTimeout(status)
	}
	ctx := k.request.Context()
	k.config.Logger.LogAttrs(ctx, level, message, slog.String("verb", k.request.Method), slog.String("URI", k.request.RequestURI),
		slog.String("audit-ID", request.AuditID(ctx)), slog.Duration("since", time.Since(request.Received(ctx))))
}

// end prevents further use of the response. It is idempotent.
func (k *waker) end(returned bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.finished {
		return
	}
	k.finished = true
	if !k.left {
		return
	}
	status := telemetry.PostTimeoutOK
	if !returned {
		status = telemetry.PostTimeoutPanic
	}
	k.note(slog.LevelInfo, "handler of a request that timed out has returned", status)
}

// finish sends the 504 if the deadline has passed and the handler returned without a response. It
// aborts a successful response that may be incomplete.
func (k *waker) finish() {
	k.end(true)
	response := k.response
	if k.left || !k.cutOff && !k.expired() || response.status == http.StatusSwitchingProtocols {
		return
	}
	switch {
	case response.status == 0:
		k.config.OnError(response, k.request, ErrTimeout())
	case succeeded(int32(response.status)):
		// The client must not take an incomplete response for a complete one.
		panic(http.ErrAbortHandler)
	}
}

func longAgo() time.Time { return time.Unix(1, 0) }

// succeeded reports whether a status is a success. 0 means that there is no response yet.
func succeeded(status int32) bool { return status >= 100 && status < 300 }

// timeoutOf parses ?timeout=. Zero and values above max select max.
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
