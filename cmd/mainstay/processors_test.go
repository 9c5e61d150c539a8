package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"mainstay.dev/mainstay/test/testserver"
)

// TestProcessors checks that GOMAXPROCS is increased by one during work and for some time
// afterwards. It is not parallel, because GOMAXPROCS is global.
func TestProcessors(t *testing.T) { // not parallel: what Go counts is the process's
	if os.Getenv("GOMAXPROCS") != "" {
		t.Skip("GOMAXPROCS is set, so that nothing is to be added")
	}
	before := runtime.GOMAXPROCS(0)
	countingReader := func(want int) error {
		if got := runtime.GOMAXPROCS(0); got != want {
			return errors.New("Go counts another number of processors")
		}
		return nil
	}
	p := newProcessors(time.Millisecond)
	for range 2 {
		for range max(1, before-1) {
			if err := p.Acquire(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := countingReader(before + 1); err != nil {
			t.Errorf("at work: %v: %d", err, runtime.GOMAXPROCS(0))
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Acquire(over, 1); err == nil {
			t.Error("one too many may work")
		}
		for range max(1, before-1) {
			p.Release(1)
		}
		testserver.Eventually(t, time.Minute, func() error { return countingReader(before) })
	}
	fixed := newProcessors(time.Millisecond)
	fixed.fixed = true
	if err := fixed.Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	defer fixed.Release(1)
	if err := countingReader(before); err != nil {
		t.Errorf("by the user's number: %v", err)
	}
}
