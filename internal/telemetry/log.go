package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Formats of a log.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// LogConfig configures a logger.
type LogConfig struct {
	// Output is where lines go. Nil discards them.
	Output io.Writer
	// Format is FormatText (the default) or FormatJSON.
	Format string
	// Verbosity is the -v of Kubernetes components: 0 for operators, 3 for all requests, 6 and more
	// for developers.
	Verbosity int
}

// Verbosity is the level of lines that are logged from -v=n on.
func Verbosity(n int) slog.Level { return slog.LevelInfo - slog.Level(n) }

// maxValue is the maximum size of a value in a log line, in bytes: sufficient for the stack of a
// panic, and a limit for client input.
const maxValue = 16 << 10

// NewLogger returns a logger that blanks out secrets (see redact), and cuts
// values short.
func NewLogger(config LogConfig) (*slog.Logger, error) {
	if config.Output == nil {
		return slog.New(slog.DiscardHandler), nil
	}
	options := &slog.HandlerOptions{Level: Verbosity(config.Verbosity), ReplaceAttr: replace}
	switch config.Format {
	case "", FormatText:
		return slog.New(slog.NewTextHandler(config.Output, options)), nil
	case FormatJSON:
		return slog.New(slog.NewJSONHandler(config.Output, options)), nil
	}
	return nil, fmt.Errorf("log format %q is not known; use %s or %s", config.Format, FormatText, FormatJSON)
}

func replace(groups []string, attr slog.Attr) slog.Attr { return shorten(redact(groups, attr)) }

// shorten truncates a text or error beyond maxValue.
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
	if len(text) <= maxValue {
		return attr
	}
	return slog.String(attr.Key, strings.ToValidUTF8(text[:maxValue], "")+" ...")
}

// redact blanks out values with the key of a credential, so that no
// caller can log a credential by logging headers or a configuration, and names
// the levels below Info by their verbosity.
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
