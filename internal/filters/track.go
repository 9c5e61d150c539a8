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

// TrackConfig configures Track. All fields are required.
type TrackConfig struct {
	Metrics *telemetry.Requests
	Logger  *slog.Logger
}

// Track returns a filter that counts every request and logs it at verbosity 3. It adds a trace to
// each request that is not long-running, and logs the trace if the request is slow. The resource or
// path of a request becomes a metric label only if its request.Route is known, which limits the
// number of label values.
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

type trackedRequest struct {
	config      *TrackConfig
	ctx         context.Context
	labels      telemetry.Request
	trace       *telemetry.Trace
	longRunning bool
	fields      logFields
	// endLongRunning stops counting a long-running request as active; watermark counts other requests.
	endLongRunning func()
	watermark      *telemetry.Watermark
}

func newTracked(config *TrackConfig, r *http.Request, userAgent bool) *trackedRequest {
	ctx := r.Context()
	route := request.RouteFrom(ctx)
	return &trackedRequest{
		config: config, ctx: ctx, fields: logFieldsOf(r, userAgent),
		labels:      telemetry.Describe(r, request.InfoFrom(ctx), route != nil && route.Known()),
		longRunning: request.LongRunning(ctx),
	}
}

// begin counts the request as active. It returns the request, with a trace in its context unless
// the request is long-running.
func (t *trackedRequest) begin(r *http.Request) *http.Request {
	if t.longRunning {
		t.endLongRunning = t.config.Metrics.LongRunning(t.labels)
		return r
	}
	ctx, trace := telemetry.NewTrace(r.Context(), request.Received(r.Context()))
	t.ctx, t.trace, t.watermark = ctx, trace, t.inFlight()
	t.watermark.Inc()
	return r.WithContext(ctx)
}

// logFields contains the parts of a request that are logged. They are copied, because the handler
// of a long-running request releases the request header.
type logFields struct {
	method, uri, remote string
	userAgent           string
}

// logFieldsOf returns the parts of a request that are logged. It copies the user agent only if
// userAgent is true, because only the copy allocates memory.
func logFieldsOf(r *http.Request, userAgent bool) logFields {
	l := logFields{method: r.Method, uri: r.RequestURI, remote: r.RemoteAddr}
	if userAgent {
		name := r.UserAgent()
		l.userAgent = strings.Clone(name[:min(len(name), maxUserAgent)])
	}
	return l
}

func (t *trackedRequest) inFlight() *telemetry.Watermark {
	if mutating(request.InfoFrom(t.ctx)) {
		return t.config.Metrics.Mutating()
	}
	return t.config.Metrics.ReadOnly()
}

// mutating reports whether a request counts as mutating, which is the case unless its verb is get,
// list or watch.
func mutating(info *request.Info) bool {
	switch info.Verb {
	case "get", "list", "watch":
		return false
	}
	return true
}

// cleanup implements cleaner.
func (t *trackedRequest) cleanup(response *response, panicked any) {
	if t.longRunning {
		defer t.endLongRunning()
	} else {
		defer t.watermark.Dec()
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
	excluded := request.Latency(t.ctx, request.StageQueueWait, request.StageMutatingWebhooks, request.StageValidatingWebhooks)
	t.config.Metrics.Completed(t.labels, status, took, excluded, response.size)
	t.log(status, took)
}

// trackLevel is the verbosity at which requests are logged.
func trackLevel() slog.Level { return telemetry.Verbosity(3) }

// log logs the trace of a slow request. At verbosity 3, it also logs every request.
func (t *trackedRequest) log(status int, took time.Duration) {
	ctx, level, logger := t.ctx, trackLevel(), t.config.Logger
	if !t.longRunning && took >= telemetry.SlowRequestThreshold {
		t.trace.LogSlow(ctx, logger, slog.String("verb", t.fields.method), slog.String("URI", t.fields.uri),
			slog.String("audit-ID", request.AuditID(ctx)), slog.Int("resp", status))
	}
	if logger.Enabled(ctx, level) {
		logger.LogAttrs(ctx, level, "HTTP", slog.String("verb", t.fields.method), slog.String("URI", t.fields.uri),
			slog.Duration("latency", took), slog.String("userAgent", t.fields.userAgent), slog.String("audit-ID", request.AuditID(ctx)),
			slog.String("srcIP", t.fields.remote), slog.Int("resp", status))
	}
}
