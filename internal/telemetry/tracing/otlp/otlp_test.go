package otlp

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
	for _, tt := range []struct{ name, text, err string }{
		{"defaults", head, ""},
		{"all fields", head + "endpoint: 10.0.0.1:4317\nsamplingRatePerMillion: 1000000", ""},
		{"old version", strings.ReplaceAll(head, "/v1", "/v1alpha1"), ""},
		{"JSON", `{"apiVersion":"apiserver.config.k8s.io/v1beta1","kind":"TracingConfiguration"}`, ""},
		{"Unix socket", head + "endpoint: unix:///run/collector", ""},
		{"other kind", "apiVersion: v1\nkind: Pod", `kind "Pod" of "v1" is not supported`},
		{"unknown field", head + "endpiont: x", "endpiont"},
		{"negative rate", head + "samplingRatePerMillion: -1", "must be between 0 and 1000000"},
		{"too large rate", head + "samplingRatePerMillion: 1000001", "must be between 0 and 1000000"},
		{"URL", head + "endpoint: https://collector:4317", "it must be HOST:PORT"},
		{"no YAML", "\t", "yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "tracing.yaml")
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := ReadConfig(file)
			if (err == nil) != (tt.err == "") || err != nil && (!strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), file)) {
				t.Errorf("got %v, want %q with the name of the file", err, tt.err)
			}
		})
	}
	if _, err := ReadConfig("missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

type brokenExporter struct{ trace.SpanExporter }

func (brokenExporter) ExportSpans(context.Context, []trace.ReadOnlySpan) error {
	return errors.New("connection refused")
}

// TestErrorsAreLogged checks that export errors are logged, at most once per logInterval.
func TestErrorsAreLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	exporter := &loggedExporter{SpanExporter: brokenExporter{}, logger: slog.New(slog.NewTextHandler(&log, nil))}
	for range 5 {
		if err := exporter.ExportSpans(t.Context(), tracetest.SpanStubs{{Name: "GET"}}.Snapshots()); err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(log.String(), "connection refused"); n != 1 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}
