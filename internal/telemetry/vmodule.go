package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// ModuleVerbosity is the verbosity of the source files that match a pattern, as in klog's flag
// --vmodule.
type ModuleVerbosity struct {
	// Pattern is a path.Match pattern for the name of a file without ".go". A pattern with slashes is matched
	// against the same number of trailing elements of the file's path.
	Pattern string
	// Verbosity is as defined for LogConfig.Verbosity.
	Verbosity int
}

// ParseModuleVerbosity parses a comma-separated list of PATTERN=N. An empty text is an empty list.
// ParseModuleVerbosity returns an error for a malformed item.
func ParseModuleVerbosity(text string) ([]ModuleVerbosity, error) {
	var modules []ModuleVerbosity
	for item := range strings.SplitSeq(text, ",") {
		if item == "" {
			continue
		}
		pattern, number, found := strings.Cut(item, "=")
		verbosity, err := strconv.Atoi(number)
		if _, invalid := path.Match(pattern, ""); !found || pattern == "" || invalid != nil || err != nil || verbosity < 0 {
			return nil, fmt.Errorf("%q is not of the form PATTERN=N, as in store*=4", item)
		}
		modules = append(modules, ModuleVerbosity{pattern, verbosity})
	}
	return modules, nil
}

func (m *ModuleVerbosity) matches(file string) bool {
	name := strings.TrimSuffix(filepath.ToSlash(file), ".go")
	elements := strings.Split(name, "/")
	n := min(strings.Count(m.Pattern, "/")+1, len(elements))
	matched, err := path.Match(m.Pattern, strings.Join(elements[len(elements)-n:], "/"))
	return err == nil && matched
}

// moduleHandler is a handler that also writes lines below the level of the logger if their source file
// has a higher verbosity.
type moduleHandler struct {
	slog.Handler
	level   slog.Leveler // level of files without a matching module
	lowest  slog.Level   // lowest level of all modules
	modules []ModuleVerbosity
	levels  *sync.Map // slog.Level by program counter; math.MaxInt for files without a matching module
}

// newModuleHandler returns a handler that writes to out, whose level must not exclude any line.
func newModuleHandler(out slog.Handler, level slog.Leveler, modules []ModuleVerbosity) *moduleHandler {
	h := &moduleHandler{Handler: out, level: level, lowest: math.MaxInt, modules: modules, levels: &sync.Map{}}
	for _, m := range modules {
		h.lowest = min(h.lowest, Verbosity(m.Verbosity))
	}
	return h
}

// Enabled implements slog.Handler.
func (h *moduleHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= min(h.lowest, h.level.Level())
}

// Handle implements slog.Handler.
func (h *moduleHandler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level < h.level.Level() && record.Level < h.levelOf(record.PC) {
		return nil
	}
	return h.Handler.Handle(ctx, record)
}

// levelOf returns the level for the source file of a program counter. It is the level of the first matching
// pattern, or math.MaxInt if no pattern matches.
func (h *moduleHandler) levelOf(pc uintptr) slog.Level {
	if level, known := h.levels.Load(pc); known {
		return level.(slog.Level)
	}
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	level := slog.Level(math.MaxInt)
	for _, m := range h.modules {
		if m.matches(frame.File) {
			level = Verbosity(m.Verbosity)
			break
		}
	}
	h.levels.Store(pc, level)
	return level
}

// WithAttrs implements slog.Handler.
func (h *moduleHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.Handler = h.Handler.WithAttrs(attrs)
	return &next
}

// WithGroup implements slog.Handler.
func (h *moduleHandler) WithGroup(name string) slog.Handler {
	next := *h
	next.Handler = h.Handler.WithGroup(name)
	return &next
}
