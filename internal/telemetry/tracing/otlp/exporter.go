// Package otlp exports spans to an OpenTelemetry collector, with OTLP over gRPC (KEP-647). Spans are sent
// in batches in the background. Requests do not wait for the collector, and spans are dropped if the
// collector does not receive them in time.
package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
)

// Options configures a provider in addition to its configuration file.
type Options struct {
	// ServerID identifies this server in its spans.
	ServerID string
	// Dial connects to the collector; nil connects directly.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger receives export errors, at most one every ten seconds; nil discards them.
	Logger *slog.Logger
}

// Limits of one span, so that the span of a request with a long URL does not use much memory.
const (
	maxAttributeValue = 4 << 10 // bytes
	maxAttributes     = 64
	maxEvents         = 64
)

// New returns a provider whose spans are exported. The provider connects to the collector only when
// it exports the first spans. The caller must call Shutdown, which exports the remaining spans. New
// returns an error if the exporter cannot be created.
func New(config *Config, options Options) (*trace.TracerProvider, error) {
	logger := options.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	clientOptions := []otlptracegrpc.Option{otlptracegrpc.WithInsecure()}
	if config.Endpoint != "" {
		clientOptions = append(clientOptions, otlptracegrpc.WithEndpoint(config.Endpoint))
	}
	if dial := options.Dial; dial != nil {
		clientOptions = append(clientOptions, otlptracegrpc.WithDialOption(grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dial(ctx, "tcp", address)
		})))
	}
	exporter, err := otlptracegrpc.New(context.Background(), clientOptions...)
	if err != nil {
		return nil, fmt.Errorf("create the exporter of spans: %w", err)
	}
	limits := trace.NewSpanLimits()
	limits.AttributeValueLengthLimit, limits.AttributeCountLimit, limits.EventCountLimit = maxAttributeValue, maxAttributes, maxEvents
	return trace.NewTracerProvider(
		trace.WithSampler(trace.ParentBased(trace.TraceIDRatioBased(float64(config.SamplingRatePerMillion)/maxSamplingRate))),
		trace.WithBatcher(&loggedExporter{SpanExporter: exporter, logger: logger}),
		trace.WithRawSpanLimits(limits),
		// The attributes are the same as in kube-apiserver.
		trace.WithResource(resource.NewSchemaless(attribute.String("service.name", "apiserver"), attribute.String("service.instance.id", options.ServerID))),
	), nil
}

// logInterval is the minimum time between two logged errors.
const logInterval = 10 * time.Second

// loggedExporter logs export errors. It does not return them, because the SDK would pass them to a global
// handler.
type loggedExporter struct {
	trace.SpanExporter
	logger *slog.Logger
	logged atomic.Int64 // time of the last logged error, in Unix nanoseconds
}

// ExportSpans implements trace.SpanExporter.
func (e *loggedExporter) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	now, last := time.Now().UnixNano(), e.logged.Load()
	if time.Duration(now-last) >= logInterval && e.logged.CompareAndSwap(last, now) {
		e.logger.Warn("spans were not exported to the collector of --tracing-config-file", "spans", len(spans), "err", err)
	}
	return nil
}
