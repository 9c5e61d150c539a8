package filters

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/telemetry"
)

// maxUserAgent is the maximum size of a logged user agent, in bytes.
const maxUserAgent = 1 << 10

// TrackConfig configures Track.
type TrackConfig struct {
	Metrics *telemetry.Requests
	Logger  *slog.Logger
}

// Track counts every request and logs it at verbosity 3. It adds a trace to each request, and logs
// the trace if the request is slow. The resource or path of a request becomes a metric label only if
// its request.Route is known.
func Track(config TrackConfig) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			t := newTracked(&config, r, config.Logger.Enabled(r.Context(), trackLevel()))
			response := wrap(w)
			response.addCleanup(t)
			next.ServeHTTP(response, t.begin(r))
		})
	}
}

// tracked is an active request.
type tracked struct {
	config      *TrackConfig
	ctx         context.Context
	labels      telemetry.Request
	trace       *telemetry.Trace
	longRunning bool
	line        line
	// ended ends a long-running request, mark ends other requests.
	ended func()
	mark  *telemetry.Watermark
}

func newTracked(config *TrackConfig, r *http.Request, userAgent bool) *tracked {
	ctx := r.Context()
	route := request.RouteFrom(ctx)
	return &tracked{
		config: config, ctx: ctx, line: lineOf(r, userAgent),
		labels:      telemetry.Describe(r, request.InfoFrom(ctx), route != nil && route.Known()),
		longRunning: request.LongRunning(ctx),
	}
}

// begin counts the request as active, and returns it with its trace, if any.
func (t *tracked) begin(r *http.Request) *http.Request {
	if t.longRunning {
		t.ended = t.config.Metrics.LongRunning(t.labels)
		return r
	}
	ctx, trace := telemetry.NewTrace(r.Context(), request.Received(r.Context()))
	t.ctx, t.trace, t.mark = ctx, trace, t.inFlight()
	t.mark.Begin()
	return r.WithContext(ctx)
}

// line contains the logged parts of a request. The request itself must not be retained by a
// long-running handler, which releases its header.
type line struct {
	method, uri, remote string
	userAgent           string
}

// lineOf returns the line of a request. It allocates memory only for the user agent.
func lineOf(r *http.Request, userAgent bool) line {
	l := line{method: r.Method, uri: r.RequestURI, remote: r.RemoteAddr}
	if userAgent {
		name := r.UserAgent()
		l.userAgent = strings.Clone(name[:min(len(name), maxUserAgent)])
	}
	return l
}

func (t *tracked) inFlight() *telemetry.Watermark {
	if mutating(request.InfoFrom(t.ctx)) {
		return t.config.Metrics.Mutating()
	}
	return t.config.Metrics.ReadOnly()
}

// mutating reports whether a request counts as mutating: every request that is not known to be
// read-only.
func mutating(info *request.Info) bool {
	switch info.Verb {
	case "get", "list", "watch":
		return false
	}
	return true
}

// cleanup implements cleaner.
func (t *tracked) cleanup(response *response, panicked any) {
	if t.longRunning {
		defer t.ended()
	} else {
		defer t.mark.End()
	}
	status := response.status
	switch {
	case status == 0 && panicked == nil:
		status = http.StatusOK
	case status == 0:
		status = http.StatusInternalServerError
	case panicked != nil:
		t.config.Metrics.Aborted(t.labels)
	}
	took := time.Since(request.Received(t.ctx))
	t.config.Metrics.Done(t.labels, status, took, request.QueueWait(t.ctx), response.size)
	t.log(status, took)
}

// trackLevel is the verbosity at which requests are logged.
func trackLevel() slog.Level { return telemetry.Verbosity(3) }

// log logs the trace of a slow request, and every request if enabled.
func (t *tracked) log(status int, took time.Duration) {
	ctx, level, logger := t.ctx, trackLevel(), t.config.Logger
	if !t.longRunning && took >= telemetry.SlowRequest {
		t.trace.LogSlow(ctx, logger, slog.String("verb", t.line.method), slog.String("URI", t.line.uri),
			slog.String("audit-ID", request.AuditID(ctx)), slog.Int("resp", status))
	}
	if logger.Enabled(ctx, level) {
		logger.LogAttrs(ctx, level, "HTTP", slog.String("verb", t.line.method), slog.String("URI", t.line.uri),
			slog.Duration("latency", took), slog.String("userAgent", t.line.userAgent), slog.String("audit-ID", request.AuditID(ctx)),
			slog.String("srcIP", t.line.remote), slog.Int("resp", status))
	}
}
