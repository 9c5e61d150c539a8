package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// latencies records the durations of requests by name. It is safe for concurrent use.
type latencies struct {
	mu    sync.Mutex
	taken map[string][]time.Duration
}

func newLatencies() *latencies { return &latencies{taken: map[string][]time.Duration{}} }

func (l *latencies) add(name string, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken[name] = append(l.taken[name], took)
}

// timed calls do, and records its duration if it succeeds.
func (l *latencies) timed(name string, do func() error) error {
	began := time.Now()
	err := do()
	if err == nil {
		l.add(name, time.Since(began))
	}
	return err
}

// reset removes the recorded durations.
func (l *latencies) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.taken)
}

// quantile returns a duration that the given share of the requests did not exceed, or 0 if no durations are
// recorded.
func (l *latencies) quantile(name string, share float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Sorted(slices.Values(l.taken[name]))
	if len(all) == 0 {
		return 0
	}
	return all[int(share*float64(len(all)-1))]
}

// print writes a table of quantiles.
func (l *latencies) print() {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Printf("  %-28s %8s %9s %9s %9s\n", "milliseconds", "n", "p50", "p99", "most")
	for _, name := range slices.Sorted(maps.Keys(l.taken)) {
		all := l.taken[name]
		slices.Sort(all)
		at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000 }
		fmt.Printf("  %-28s %8d %9.2f %9.2f %9.2f\n", name, len(all), at(0.5), at(0.99), at(1))
	}
}
