package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"mainstay.dev/mainstay/internal/host"
	"mainstay.dev/mainstay/internal/limits/memory"
)

// collectorPercent is the percentage of the memory limit that becomes the limit of the garbage collector. The
// remainder is for memory outside the heap.
const collectorPercent = 90

// limitMemory sets the memory limits of the server and of the garbage collector. The garbage collector's limit
// is set here and not in package host, because it applies to the whole process.
func limitMemory(config *host.Config) {
	switch {
	case config.Limits.Memory == host.NoLimit:
		config.Limits.Memory = 0
		return
	case config.Limits.Memory == 0:
		config.Limits.Memory = defaultMemoryLimit(cmp.Or(config.Logger, slog.New(slog.DiscardHandler)))
	}
	if config.Limits.Memory == 0 {
		return
	}
	config.Limits.MemoryPressed = memory.PressureFunc(config.Limits.Memory)
	debug.SetMemoryLimit(config.Limits.Memory / 100 * collectorPercent)
}

// defaultMemoryLimit returns GOMEMLIMIT if it is set, otherwise the memory of the control group or machine, in
// bytes. It returns 0 if the limit is unknown.
func defaultMemoryLimit(logger *slog.Logger) int64 {
	if os.Getenv("GOMEMLIMIT") != "" {
		if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
			return limit
		}
		return 0
	}
	limit, err := memory.Available(os.DirFS("/"))
	if err != nil {
		logger.Warn("the memory of the server is not limited", "err", fmt.Errorf("--memory-limit: %w", err))
		return 0
	}
	return max(limit, memory.MinLimit)
}
