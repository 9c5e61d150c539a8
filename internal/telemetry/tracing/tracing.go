// Package tracing records OpenTelemetry spans for the stages of requests (KEP-647), and propagates the trace
// context to other servers. Its functions use the span in the context of a request. If there is no span, or if
// the request is not sampled, they have no effect and do not allocate. All functions are safe for concurrent
// use.
package tracing

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the name of the instrumentation scope of all spans.
const Scope = "mainstay.dev/mainstay"

// Span is a part of a request. The zero value is a span that is not recorded. It is safe for
// concurrent use.
type Span struct{ span trace.Span }

// Start starts a span for a part of the request of ctx. It returns a context in which child spans
// can be started. The caller must call End.
func Start(ctx context.Context, name string) (context.Context, Span) {
	return start(ctx, "", name)
}

// StartNamed is like Start, with the name "KIND NAME". It builds this name only if the request is recorded.
func StartNamed(ctx context.Context, kind, name string) (context.Context, Span) {
	return start(ctx, kind, name)
}

func start(ctx context.Context, kind, name string) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	ctx, span := parent.TracerProvider().Tracer(Scope).Start(ctx, Text(spanName(kind, name)))
	return ctx, Span{span}
}

func spanName(kind, name string) string {
	if kind == "" {
		return name
	}
	return kind + " " + name
}

// Set adds an attribute.
func (s Span) Set(name, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(name, Text(value)))
	}
}

// End ends the span. A non-nil err sets the status of the span to an error.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, Text(err.Error()))
	}
	s.span.End()
}

// maxText is the maximum size of a text in a span, in bytes.
const maxText = 4 << 10

// Text prepares a text from a client or another server for use in a span. It truncates the text to 4 KiB
// and replaces invalid UTF-8, because exporters reject a whole batch of spans if one text is invalid.
func Text(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxText)], "\uFFFD") }

// Event adds an event to the span of ctx.
func Event(ctx context.Context, name string) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent(name)
	}
}

// Propagator returns the propagator for trace contexts in requests. It uses the formats W3C Trace
// Context and Baggage, as kube-apiserver does.
func Propagator() propagation.TextMapPropagator {
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
}

// Inject adds the trace context of ctx to the header of a request to another server. It does not
// change the header if ctx has no trace context.
func Inject(ctx context.Context, header http.Header) {
	InjectInto(ctx, propagation.HeaderCarrier(header))
}

// InjectInto is like Inject, for other protocols.
func InjectInto(ctx context.Context, carrier propagation.TextMapCarrier) {
	if HasContext(ctx) {
		Propagator().Inject(ctx, carrier)
	}
}

// HasContext reports whether ctx has a trace context that other servers should receive.
func HasContext(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsValid() }
