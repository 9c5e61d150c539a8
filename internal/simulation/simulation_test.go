package simulation_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"mainstay.dev/mainstay/internal/simulation"
)

func TestClock(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	w := simulation.New(simulation.Config{Time: start})
	moved := w.Moved()
	select {
	case <-moved:
		t.Error("the clock has moved by itself")
	default:
	}
	w.Advance(time.Hour)
	<-moved
	if now := simulation.Now(simulation.With(t.Context(), w)); !now.Equal(start.Add(time.Hour)) {
		t.Errorf("Now returned %s", now)
	}
	if shifted := w.Shifted(); shifted.Before(time.Now().Add(59 * time.Minute)) {
		t.Errorf("Shifted returned %s", shifted)
	}
	if left := w.Until(start.Add(3 * time.Hour)); left != 2*time.Hour {
		t.Errorf("Until returned %s", left)
	}
}

// TestNil checks that a nil Simulation uses the real clock and random numbers.
func TestNil(t *testing.T) {
	t.Parallel()
	w := simulation.From(simulation.With(context.Background(), nil))
	if w != nil || w.Moved() != nil {
		t.Error("a nil Simulation was replaced, or has a channel for movements")
	}
	before := time.Now()
	if now := w.Now(); now.Before(before) {
		t.Errorf("Now returned %s", now)
	}
	if a, b := w.UID("a"), w.UID("a"); a == b {
		t.Errorf("two calls returned the UID %s", a)
	}
}

// TestSeed checks that random numbers depend only on the seed, the purpose, and the number of earlier calls.
func TestSeed(t *testing.T) {
	t.Parallel()
	one, same, other := simulation.New(simulation.Config{Seed: 1}), simulation.New(simulation.Config{Seed: 1}), simulation.New(simulation.Config{Seed: 2})
	first, second := one.UID("a"), one.UID("a")
	_ = same.UID("b") // does not affect other purposes
	if got := same.UID("a"); got != first {
		t.Errorf("the same seed results in %s and %s", first, got)
	}
	if got := same.UID("a"); got != second || got == first {
		t.Errorf("the second uids are %s and %s, the first %s", second, got, first)
	}
	if got := other.UID("a"); got == first {
		t.Errorf("two different seeds both result in %s", got)
	}
	if id, err := uuid.Parse(string(first)); err != nil || id.Version() != 4 || id.Variant() != uuid.RFC4122 {
		t.Errorf("%s is not a version 4 UUID: %v", first, err)
	}
	if a, b := one.Random("name").Uint64(), same.Random("name").Uint64(); a != b {
		t.Errorf("the same seed results in %d and %d", a, b)
	}
}

// TestAfterFunc checks that a function is called once when the clock reaches its time, whether the clock is
// moved or runs, and that it is not called after stop.
func TestAfterFunc(t *testing.T) {
	t.Parallel()
	called := make(chan string, 10)
	say := func(what string) func() { return func() { called <- what } }
	w := simulation.New(simulation.Config{Time: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)})
	start := w.Now()
	w.AfterFunc(start.Add(-time.Hour), say("past"))
	if got := <-called; got != "past" {
		t.Fatalf("called: %s", got)
	}
	w.AfterFunc(start.Add(2*time.Hour), say("late"))
	w.AfterFunc(start.Add(time.Hour), say("soon"))
	w.AfterFunc(start.Add(time.Hour), say("stopped"))()
	w.Advance(time.Hour)
	if got := <-called; got != "soon" {
		t.Errorf("an hour later: %s", got)
	}
	w.Advance(time.Hour)
	if got := <-called; got != "late" {
		t.Errorf("two hours later: %s", got)
	}
	for name, sim := range map[string]*simulation.Simulation{"real": nil, "going": simulation.New(simulation.Config{})} {
		sim.AfterFunc(sim.Now().Add(time.Hour), say("too soon"))()
		sim.AfterFunc(sim.Now().Add(time.Millisecond), say(name))
		if got := <-called; got != name {
			t.Errorf("%s clock: function %s was called", name, got)
		}
	}
}
