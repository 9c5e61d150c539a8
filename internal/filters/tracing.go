package filters

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/telemetry/tracing"
)

// Trace returns a filter that records each sampled request as a span of the provider, with kube-apiserver's
// names (KEP-647). It must run after Authenticate, because the user determines whether the span continues the
// client's trace. The span does so only if the user is in the group system:masters or system:monitoring,
// because any client could otherwise decide that its requests are recorded. For other users, the span begins a
// new trace with a link to the client's trace. With a nil provider, the filter does nothing.
func Trace(provider trace.TracerProvider) Filter {
	if provider == nil {
		return func(next http.Handler) http.Handler { return next }
	}
	tracer, propagator := provider.Tracer(tracing.Scope), tracing.Propagator()
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
			ctx, span := startServerSpan(ctx, tracer, r)
			if !span.IsRecording() {
				next.ServeHTTP(w, r.WithContext(ctx)) // other servers receive the trace context of ctx
				return
			}
			response := wrap(w)
			response.addCleanup(&tracedRequest{span})
			next.ServeHTTP(response, r.WithContext(ctx))
		})
	}
}

func startServerSpan(ctx context.Context, tracer trace.Tracer, r *http.Request) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(request.Received(ctx))}
	if client := trace.SpanContextFromContext(ctx); client.IsValid() && !mayExtendTraces(request.UserFrom(ctx)) {
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: client}))
	}
	ctx, span := tracer.Start(ctx, spanName(r, request.InfoFrom(ctx)), options...)
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("http.request.method", r.Method),
			attribute.String("http.target", tracing.Text(r.RequestURI)),
			attribute.String("url.path", tracing.Text(r.URL.Path)),
			attribute.String("user_agent.original", tracing.Text(r.UserAgent())),
			attribute.String("client.address", r.RemoteAddr),
			attribute.String("network.protocol.version", strconv.Itoa(r.ProtoMajor)),
			attribute.String("audit-id", tracing.Text(request.AuditID(ctx))),
		)
	}
	return ctx, span
}

// mayExtendTraces reports whether the spans of a user's requests become part of the traces that the
// user's clients started.
func mayExtendTraces(user *request.User) bool {
	return user != nil && slices.ContainsFunc(user.Groups, func(group string) bool {
		return group == request.GroupMasters || group == groupMonitoring
	})
}

const groupMonitoring = "system:monitoring"

// spanName returns the method and the template of the path.
func spanName(r *http.Request, info *request.Info) string {
	if info == nil || !info.IsResource {
		return r.Method
	}
	name := r.Method + " /api/" + info.Version
	if info.Group != "" {
		name = r.Method + " /apis/" + info.Group + "/" + info.Version
	}
	if info.Namespace != "" {
		name += "/namespaces/{:namespace}"
	}
	name += "/" + info.Resource
	if info.Name != "" {
		name += "/{:name}"
	}
	if info.Subresource != "" {
		name += "/" + info.Subresource
	}
	return tracing.Text(name)
}

type tracedRequest struct{ span trace.Span }

// cleanup implements cleaner.
func (t *tracedRequest) cleanup(response *response, panicked any) {
	status := response.status
	switch {
	case panicked != nil:
		status = http.StatusInternalServerError
	case status == 0:
		status = http.StatusOK
	}
	t.span.SetAttributes(attribute.Int("http.response.status_code", status), attribute.Int64("http.response.body.size", response.size))
	if status >= http.StatusInternalServerError {
		t.span.SetStatus(codes.Error, http.StatusText(status))
	}
	t.span.End()
}
