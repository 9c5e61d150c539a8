package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
)

// Values of LogConfig.Format.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// LogConfig configures a logger.
type LogConfig struct {
	// Output is the destination of the log. nil discards all lines, even if InfoOutput is set. Output must
	// support concurrent writes.
	Output io.Writer
	// InfoOutput is the destination of lines that are not errors; nil selects Output.
	InfoOutput io.Writer
	// Format is FormatText (the default) or FormatJSON.
	Format string
	// Verbosity is the value of the flag -v, as in other Kubernetes components: 0 for operators, 3
	// to log all requests, 6 and more for developers.
	Verbosity int
	// Level is the level of the logger, which NewLogger sets according to Verbosity. It can be changed
	// later. nil selects a level that does not change.
	Level *slog.LevelVar
	// Modules raises the verbosity of individual source files. The first pattern that matches a file applies. A
	// value below Verbosity has no effect.
	Modules []ModuleVerbosity
}

// Verbosity returns the slog level of lines that are logged at -v=n and above.
func Verbosity(n int) slog.Level { return slog.LevelInfo - slog.Level(n) }

// maxValueSize is the maximum size of a value in a log line, in bytes. It is large enough for the
// stack trace of a panic, and limits how much client input is logged.
const maxValueSize = 16 << 10

// NewLogger returns a logger that redacts the values of keys such as "authorization" and "token",
// and truncates values beyond 16 KiB. It returns an error for an unknown format.
func NewLogger(config LogConfig) (*slog.Logger, error) {
	if config.Output == nil {
		return slog.New(slog.DiscardHandler), nil
	}
	level := config.Level
	if level == nil {
		level = new(slog.LevelVar)
	}
	level.Set(Verbosity(config.Verbosity))
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: replace}
	if len(config.Modules) > 0 {
		options.Level = slog.Level(math.MinInt)
	}
	var newHandler func(io.Writer) slog.Handler
	switch config.Format {
	case "", FormatText:
		newHandler = func(out io.Writer) slog.Handler { return slog.NewTextHandler(out, options) }
	case FormatJSON:
		newHandler = func(out io.Writer) slog.Handler { return slog.NewJSONHandler(out, options) }
	default:
		return nil, fmt.Errorf("log format %q is not known; use %s or %s", config.Format, FormatText, FormatJSON)
	}
	handler := newHandler(config.Output)
	if config.InfoOutput != nil {
		handler = &splitHandler{errors: handler, others: newHandler(config.InfoOutput)}
	}
	if len(config.Modules) > 0 {
		handler = newModuleHandler(handler, level, config.Modules)
	}
	return slog.New(handler), nil
}

func replace(groups []string, attr slog.Attr) slog.Attr { return shorten(redact(groups, attr)) }

// shorten truncates a text or error to maxValueSize.
func shorten(attr slog.Attr) slog.Attr {
	text := ""
	switch attr.Value.Kind() {
	case slog.KindString:
		text = attr.Value.String()
	case slog.KindAny:
		if err, ok := attr.Value.Any().(error); ok {
			text = err.Error()
		}
	}
	if len(text) <= maxValueSize {
		return attr
	}
	return slog.String(attr.Key, strings.ToValidUTF8(text[:maxValueSize], "")+" ...")
}

// redact replaces the values of keys for credentials, so that headers or a configuration can be
// logged safely. It also formats the levels below Info as V1, V2 and so on.
func redact(_ []string, attr slog.Attr) slog.Attr {
	switch strings.ToLower(attr.Key) {
	case "authorization", "token", "password", "secret", "client-key", "client-key-data", "proxy-authorization", "cookie":
		return slog.String(attr.Key, "[redacted]")
	case slog.LevelKey:
		if level, ok := attr.Value.Any().(slog.Level); ok && level < slog.LevelInfo {
			return slog.String(attr.Key, fmt.Sprintf("V%d", slog.LevelInfo-level))
		}
	}
	return attr
}
