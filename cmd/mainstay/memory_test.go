package main

import (
	"slices"
	"testing"
)

func TestIdleDetector(t *testing.T) {
	t.Parallel()
	var q idleDetector
	for i, step := range []struct {
		allocated uint64 // in MiB, since the last tick
		want      bool
	}{
		{40, false}, // the start
		{1, true},
		{1, false}, {3, false},
		{100, false}, {100, false}, {3, true}, {0, false},
		{3, false}, {3, false}, {3, false}, {3, false}, {3, false}, {3, false},
		{3, true}, // returned again after 8 periods
		{3, false}, {3, false}, {3, false}, {3, false}, {3, false}, {3, false}, {3, false}, {3, false}, {3, false}, {3, false},
		{3, true}, // 32 MiB of small allocations
		{20, false}, {0, false}, {20, false}, {0, true},
		{0, false}, {0, false}, {0, false}, {0, false}, {0, false}, {0, false}, {0, false},
		{20, false}, {0, true},
	} {
		if got := q.tick(q.seen + step.allocated<<20); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
}

func TestIdleDetectorRepeats(t *testing.T) {
	t.Parallel()
	var q idleDetector
	q.tick(100 << 20)
	var returns []int
	for period := range 1000 {
		if q.tick(100 << 20) {
			returns = append(returns, period)
		}
	}
	if want := []int{0, 8, 72}; !slices.Equal(returns, want) {
		t.Errorf("memory was returned in periods %v, want %v", returns, want)
	}
}
