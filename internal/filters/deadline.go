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

// DeadlineConfig configures Deadline. Metrics and OnInvalid may be nil.
type DeadlineConfig struct {
	// Max is the default timeout and the upper limit of the query parameter timeout. Required.
	Max     time.Duration
	Metrics *telemetry.Requests
	Logger  *slog.Logger
	OnError ErrorWriter
	// OnInvalid responds to a request with an invalid ?timeout=; nil selects OnError.
	OnInvalid ErrorWriter
	// IgnoreInvalid ignores an invalid ?timeout=. A later ValidTimeout filter rejects it.
	IgnoreInvalid bool
}

// Deadline returns a filter that ends requests after the shorter of Max and their query parameter timeout,
// measured from their arrival. It cancels the handler's context and interrupts reads of the request body and
// writes of the response. Requests without a response receive a 504; responses in progress are aborted. If a
// handler ignores its context, the 504 is sent shortly after the deadline, and the handler remains counted as
// in flight until it returns. Long-running requests have no deadline.
//
// Handlers run on the goroutine of their request, which saves one goroutine per request.
func Deadline(config DeadlineConfig) Filter {
	if config.OnInvalid == nil {
		config.OnInvalid = config.OnError
	}
	return func(next http.Handler) http.Handler {
		return &deadline{DeadlineConfig: config, next: next}
	}
}

// ValidTimeout returns a filter that rejects requests with an invalid ?timeout=, unless they are long-running.
// Use it after authentication if unauthenticated clients must not get this error, with
// DeadlineConfig.IgnoreInvalid.
func ValidTimeout(onError ErrorWriter) Filter {
	return filterFunc(func(w http.ResponseWriter, r *http.Request) bool {
		if request.LongRunning(r.Context()) {
			return true
		}
		_, err := parseTimeout(r.URL, 0)
		if err != nil {
			onError(w, r, apierrors.NewBadRequest(err.Error()))
		}
		return err == nil
	})
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
	timeout, err := parseTimeout(r.URL, d.Max)
	switch {
	case err != nil && d.IgnoreInvalid:
		timeout = d.Max
	case err != nil:
		d.OnInvalid(w, r, apierrors.NewBadRequest(err.Error()))
		return
	}
	ctx, cancel := context.WithDeadline(r.Context(), request.Received(r.Context()).Add(timeout))
	defer cancel()
	e := &deadlineEnforcer{config: &d.DeadlineConfig, request: r.WithContext(ctx), response: wrap(w), accept: r.Header["Accept"], agent: r.Header["User-Agent"]}
	e.response.share(&e.lock)
	defer context.AfterFunc(ctx, e.interrupt)()
	defer e.end(false) // if the handler panics
	d.next.ServeHTTP(e.response, e.request)
	e.finish()
}

// ErrTimeout returns a new API error for a request that has exceeded its deadline: 504 with reason
// Timeout.
func ErrTimeout() error {
	return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
}

// writeGrace is the timeout for sending the response after the deadline has passed.
const writeGrace = 5 * time.Second

// responseGrace is the time that a handler has to respond after its deadline. After this time, the filter sends
// the 504.
const responseGrace = 250 * time.Millisecond

// deadlineEnforcer interrupts the I/O of a handler at its deadline, and responds in place of the handler if the
// handler does not return. It must not use the ResponseWriter after the handler has returned.
type deadlineEnforcer struct {
	config   *DeadlineConfig
	request  *http.Request
	response *response
	// accept and agent are copied from the request's header, which the handler may modify.
	accept, agent []string
	lock          responseLock

	mu        sync.Mutex
	finished  bool
	aborted   bool // a started response was aborted
	responded bool // respond sent the 504 before the handler returned
}

// interrupt is called in its own goroutine when the request's context ends. It does nothing if the
// context was canceled before the deadline.
func (e *deadlineEnforcer) interrupt() {
	e.mu.Lock()
	defer e.mu.Unlock()
	started := e.response.atomicStatus.Load()
	if e.finished || !e.expired() || started == http.StatusSwitchingProtocols {
		return // an upgraded connection belongs to the handler
	}
	// Errors are ignored, because they mean that the connection does not support deadlines.
	control := http.NewResponseController(e.response.ResponseWriter)
	if succeeded(started) {
		e.aborted = control.SetWriteDeadline(longAgo()) == nil
		return
	}
	_ = control.SetReadDeadline(longAgo())
	if e.request.ProtoMajor >= 2 { // with HTTP/1, the deadline would also apply to later requests
		_ = control.SetWriteDeadline(time.Now().Add(writeGrace))
	}
	if started == 0 {
		time.AfterFunc(responseGrace, e.respond)
	}
}

func (e *deadlineEnforcer) expired() bool {
	return errors.Is(e.request.Context().Err(), context.DeadlineExceeded)
}

// respond sends the 504 in place of the handler.
func (e *deadlineEnforcer) respond() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.finished || e.response.atomicStatus.Load() != 0 {
		return
	}
	ctx := e.request.Context()
	original := (&http.Request{
		Method: e.request.Method, URL: e.request.URL, Proto: e.request.Proto, ProtoMajor: e.request.ProtoMajor, ProtoMinor: e.request.ProtoMinor,
		Header: http.Header{"Accept": e.accept, "User-Agent": e.agent},
	}).WithContext(ctx)
	a := &bufferedResponse{header: http.Header{}}
	if id := request.AuditID(ctx); id != "" {
		a.header[auditIDHeader] = []string{id}
	}
	e.config.OnError(a, original, ErrTimeout())
	if e.responded = e.response.respondInstead(a); e.responded {
		e.record(slog.LevelWarn, "request timed out, and its handler has not returned", telemetry.PostTimeoutPending)
	}
}

func (e *deadlineEnforcer) record(level slog.Level, message string, status telemetry.PostTimeout) {
	if e.config.Metrics != nil {
		e.config.Metrics.AfterTimeout(status)
	}
	ctx := e.request.Context()
	e.config.Logger.LogAttrs(ctx, level, message, slog.String("verb", e.request.Method), slog.String("URI", e.request.RequestURI),
		slog.String("audit-ID", request.AuditID(ctx)), slog.Duration("since", time.Since(request.Received(ctx))))
}

// end prevents further use of the response. returned is false if the handler panicked. Only the
// first call has an effect.
func (e *deadlineEnforcer) end(returned bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.finished {
		return
	}
	e.finished = true
	if !e.responded {
		return
	}
	status := telemetry.PostTimeoutOK
	if !returned {
		status = telemetry.PostTimeoutPanic
	}
	e.record(slog.LevelInfo, "handler of a request that timed out has returned", status)
}

// finish sends the 504 if the deadline has passed and the handler returned without a response. It
// aborts a successful response that may be incomplete.
func (e *deadlineEnforcer) finish() {
	e.end(true)
	response := e.response
	if e.responded || !e.aborted && !e.expired() || response.status == http.StatusSwitchingProtocols {
		return
	}
	switch {
	case response.status == 0:
		e.config.OnError(response, e.request, ErrTimeout())
	case succeeded(int32(response.status)):
		// Without an abort, the client would treat an incomplete response as complete.
		panic(http.ErrAbortHandler)
	}
}

func longAgo() time.Time { return time.Unix(1, 0) }

// succeeded reports whether status is a success code. It returns false for the zero status, which means that
// there is no response yet.
func succeeded(status int32) bool { return status >= 100 && status < 300 }

// parseTimeout returns the timeout in the query of u. If the parameter is missing, not positive or
// greater than max, the result is max.
func parseTimeout(u *url.URL, max time.Duration) (time.Duration, error) {
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
