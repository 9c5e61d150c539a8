package telemetry

import (
	"context"
	"log/slog"
)

// splitHandler writes errors to one handler and other lines to another. Both must have the same level.
type splitHandler struct{ errors, others slog.Handler }

func (h *splitHandler) handler(level slog.Level) slog.Handler {
	if level >= slog.LevelError {
		return h.errors
	}
	return h.others
}

// Enabled implements slog.Handler.
func (h *splitHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.handler(level).Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *splitHandler) Handle(ctx context.Context, record slog.Record) error {
	return h.handler(record.Level).Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h *splitHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &splitHandler{h.errors.WithAttrs(attrs), h.others.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h *splitHandler) WithGroup(name string) slog.Handler {
	return &splitHandler{h.errors.WithGroup(name), h.others.WithGroup(name)}
}
