package main

import (
	"slices"
	"testing"
)

func TestQuiet(t *testing.T) {
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
		{3, true}, // a while later, once more
		{3, false}, {3, false}, {3, false}, {3, false}, {3, false}, {3, false}, {3, false}, {3, false}, {3, false}, {3, false},
		{3, true}, // little by little it is worth it again
		{20, false}, {0, false}, {20, false}, {0, true},
		{0, false}, {0, false}, {0, false}, {0, false}, {0, false}, {0, false}, {0, false},
		{20, false}, {0, true},
	} {
		if got := q.tick(q.seen + step.allocated<<20); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
}

func TestQuietForLong(t *testing.T) {
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
		t.Errorf("memory was given back in periods %v, want %v", returns, want)
	}
}
