package telemetry

import (
	"bytes"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/apitest/alloctest"
)

func TestParseModuleVerbosity(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "a=1": 1, "a=1,b*=2": 2, "a": -1, "=1": -1, "a=x": -1, "a=-1": -1, "[=1": -1} {
		if got, err := ParseModuleVerbosity(text); (err != nil) != (want < 0) || err == nil && len(got) != want {
			t.Errorf("parse %q: %v, error %v; want %d entries (-1: an error)", text, got, err, want)
		}
	}
}

func TestModuleVerbosityMatches(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{"store": true, "st*": true, "registry/store": true, "*/store": true, "registry": false, "a/b/c/d/e/f/g/store": false} {
		if got := (&ModuleVerbosity{Pattern: pattern}).matches("/src/internal/registry/store.go"); got != want {
			t.Errorf("pattern %s matches: %t, want %t", pattern, got, want)
		}
	}
}

// TestModules checks that a file with a higher verbosity logs more lines, including lines with attributes.
func TestModules(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]int{"vmodule_test=4": 3, "other=4": 1, "vmodule_test=2": 2} {
		modules, err := ParseModuleVerbosity(pattern)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		logger, err := NewLogger(LogConfig{Output: &out, Modules: modules})
		if err != nil {
			t.Fatal(err)
		}
		logger = logger.With("a", 1).WithGroup("g")
		logger.Info("line")
		logger.Log(t.Context(), Verbosity(2), "line")
		logger.Log(t.Context(), Verbosity(4), "line")
		if got := strings.Count(out.String(), "msg=line"); got != want {
			t.Errorf("%s: %d lines, want %d:\n%s", pattern, got, want, out.String())
		}
	}
}

// TestDisabledLinesAllocateNothing checks that a line that is disabled for all files does not allocate memory.
func TestDisabledLinesAllocateNothing(t *testing.T) {
	modules := []ModuleVerbosity{{Pattern: "other", Verbosity: 3}}
	logger, err := NewLogger(LogConfig{Output: new(bytes.Buffer), Modules: modules})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	alloctest.None(t, "a line of verbosity 5", func() { logger.LogAttrs(ctx, Verbosity(5), "line") })
}

// TestSplitLog checks that errors and other lines go to different destinations.
func TestSplitLog(t *testing.T) {
	t.Parallel()
	var errors, others bytes.Buffer
	logger, err := NewLogger(LogConfig{Output: &errors, InfoOutput: &others, Format: FormatJSON})
	if err != nil {
		t.Fatal(err)
	}
	logger = logger.With("a", 1).WithGroup("g")
	logger.Error("failed")
	logger.Warn("odd")
	if !strings.Contains(errors.String(), "failed") || strings.Contains(errors.String(), "odd") {
		t.Errorf("errors: %s", errors.String())
	}
	if !strings.Contains(others.String(), "odd") || strings.Contains(others.String(), "failed") {
		t.Errorf("others: %s", others.String())
	}
}
