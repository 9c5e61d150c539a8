package host

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"mainstay.dev/mainstay/internal/telemetry"
	"mainstay.dev/mainstay/internal/telemetry/tracing/otlp"
)

// TracingConfig configures the export of requests as OpenTelemetry spans.
type TracingConfig struct {
	// ConfigFile is a TracingConfiguration; "" disables tracing.
	ConfigFile string
}

// AddFlags defines the flags of the config.
func (c *TracingConfig) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ConfigFile, "tracing-config-file", "", "TracingConfiguration of apiserver.config.k8s.io/v1: the OpenTelemetry collector that receives the spans of requests, and how many requests are recorded (default: none)")
}

// shutdownTracingTimeout is the maximum time to send the last spans.
const shutdownTracingTimeout = 5 * time.Second

// tracing exports spans. The zero value does not export spans.
type tracing struct{ provider *sdktrace.TracerProvider }

// openTracing reads the configuration file and creates the exporter. It does nothing if tracing is disabled.
func (h *Host) openTracing() error {
	file := h.config.Tracing.ConfigFile
	if file == "" {
		return nil
	}
	config, err := otlp.ReadConfig(file)
	if err == nil {
		h.tracing.provider, err = otlp.New(config, otlp.Options{
			ServerID: telemetry.ServerID(h.config.Listen.Hostname), Dial: h.egress.Networks.ControlPlane, Logger: h.logger,
		})
	}
	if err != nil {
		return fmt.Errorf("--tracing-config-file: %w", err)
	}
	return nil
}

// tracer returns the provider for requests, or nil without tracing.
func (t *tracing) tracer() trace.TracerProvider {
	if t.provider == nil {
		return nil
	}
	return t.provider
}

// close sends the last spans. It blocks for up to shutdownTracingTimeout, and returns no error if the
// collector does not respond within this time.
func (t *tracing) close() error {
	if t.provider == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTracingTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("stop the export of spans: %w", err)
	}
	return nil
}
