package tracing

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"mainstay.dev/mainstay/internal/apitest/alloctest"
)

// TestDisabled checks that requests that are not recorded allocate nothing for their spans.
func TestDisabled(t *testing.T) {
	ctx, header := context.WithValue(t.Context(), http.LocalAddrContextKey, "value"), http.Header{}
	alloctest.None(t, "a request that is not recorded", func() {
		ctx, span := StartNamed(ctx, "Mutate with", "Plugin")
		span.Set("name", "value")
		Event(ctx, "event")
		Inject(ctx, header)
		span.End(nil)
	})
	if len(header) > 0 {
		t.Errorf("the header contains %v", header)
	}
}

// TestSpans checks the names, parents, status and events of spans, and that other servers receive the trace
// context.
func TestSpans(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	ctx, root := provider.Tracer(Scope).Start(t.Context(), "GET")
	inner, span := StartNamed(ctx, "Call webhook", "w.example.com")
	Event(inner, "sent")
	header := http.Header{}
	Inject(inner, header)
	span.Set("key", "value")
	span.End(errors.New("refused"))
	root.End()
	ended := recorder.Ended()
	if len(ended) != 2 {
		t.Fatalf("%d spans", len(ended))
	}
	got := ended[0]
	if got.Name() != "Call webhook w.example.com" || got.Parent().SpanID() != root.SpanContext().SpanID() {
		t.Errorf("span %q with parent %v", got.Name(), got.Parent().SpanID())
	}
	if got.Status().Code != codes.Error || got.Status().Description != "refused" || len(got.Events()) != 1 || len(got.Attributes()) != 1 {
		t.Errorf("status %v, events %v, attributes %v", got.Status(), got.Events(), got.Attributes())
	}
	if want := "00-" + got.SpanContext().TraceID().String() + "-" + got.SpanContext().SpanID().String() + "-01"; header.Get("Traceparent") != want {
		t.Errorf("the header is %v, want %s", header, want)
	}
}

// TestText checks that texts in spans are truncated and valid UTF-8.
func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "text": "text", "\xff": "\uFFFD", strings.Repeat("a", 5000): strings.Repeat("a", 4096),
		strings.Repeat("a", 4095) + "\u00e9": strings.Repeat("a", 4095) + "\uFFFD", // truncated within a character
	} {
		if got := Text(text); got != want {
			t.Errorf("%.10q of %d bytes becomes %.10q of %d bytes", text, len(text), got, len(got))
		}
	}
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	ctx, root := provider.Tracer(Scope).Start(t.Context(), "GET")
	_, span := StartNamed(ctx, "Call webhook", "\xff")
	span.Set("key", "\xff")
	span.End(errors.New("\xff" + strings.Repeat("a", 5000)))
	root.End()
	got := recorder.Ended()[0]
	for _, text := range []string{got.Name(), got.Status().Description, got.Attributes()[0].Value.AsString()} {
		if !utf8.ValidString(text) || len(text) > 4100 {
			t.Errorf("the span contains %.20q of %d bytes", text, len(text))
		}
	}
}

func BenchmarkDisabled(b *testing.B) {
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		_, span := Start(ctx, "Create in storage")
		span.End(nil)
	}
}
