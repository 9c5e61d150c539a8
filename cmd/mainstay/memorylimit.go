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

// collectorPercent of the limit is what the garbage collector keeps to: the rest is for what
// it does not see.
const collectorPercent = 90

// limitMemory sets how much memory the server and the garbage collector keep to, of which
// untouched bytes are allocated and take none. It is the process's, and so set here.
func limitMemory(config *host.Config, untouched int64) {
	switch {
	case config.MemoryLimit == host.NoLimit:
		config.MemoryLimit = 0
		return
	case config.MemoryLimit == 0:
		config.MemoryLimit = defaultMemoryLimit(cmp.Or(config.Logger, slog.New(slog.DiscardHandler)))
	}
	if config.MemoryLimit == 0 {
		return
	}
	config.MemoryPressed = memory.Pressed(config.MemoryLimit, untouched)
	debug.SetMemoryLimit(config.MemoryLimit/100*collectorPercent + untouched)
}

// defaultMemoryLimit is GOMEMLIMIT, which Go has read already, or what the control group or
// the machine has; 0: none is known.
func defaultMemoryLimit(logger *slog.Logger) int64 {
	if os.Getenv("GOMEMLIMIT") != "" {
		if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
			return limit
		}
		return 0
	}
	limit, err := memory.OfMachine(os.DirFS("/"))
	if err != nil {
		logger.Warn("the server does not limit its memory", "err", fmt.Errorf("--memory-limit: %w", err))
		return 0
	}
	return max(limit, memory.MinLimit)
}
