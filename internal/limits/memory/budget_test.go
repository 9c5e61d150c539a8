package memory_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"mainstay.dev/mainstay/internal/limits/memory"
)

func newBudget(t *testing.T, limit int64) *memory.Budget {
	t.Helper()
	b, err := memory.NewBudget(limit, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBudget checks that a body of 3 MiB uses 12 MiB of a budget of 16 MiB.
func TestBudget(t *testing.T) {
	t.Parallel()
	b := newBudget(t, 64<<20)
	first, second, small := b.NewReservation(), b.NewReservation(), b.NewReservation()
	for _, size := range []int{1 << 20, 2 << 20, 3 << 20, 1 << 20} { // a growing body, and a smaller second body
		if err := first.ReserveBody(t.Context(), size); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
	if err := second.ReserveBody(t.Context(), 3<<20); !errors.Is(err, memory.ErrExhausted) {
		t.Errorf("a second body of the same size: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := second.ReserveBody(ctx, 3<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that disconnected: %v", err)
	}
	if err := small.ReserveBody(t.Context(), 64<<10); err != nil {
		t.Errorf("a small body: %v", err)
	}
	first.Release()
	first.Release()
	if err := second.ReserveBody(t.Context(), 3<<20); err != nil {
		t.Errorf("after the memory was released: %v", err)
	}
	second.Release()
	small.Release()
}

// TestBudgetOfObjects checks that the two copies of an object use the budget of 16 MiB, and that an object that
// exceeds the budget is accepted while no other request uses it.
func TestBudgetOfObjects(t *testing.T) {
	t.Parallel()
	b := newBudget(t, 64<<20)
	first, second := b.NewReservation(), b.NewReservation()
	if err := second.ReserveBody(t.Context(), 1<<20); err != nil { // 4 MiB
		t.Fatal(err)
	}
	for _, size := range []int{1 << 20, 6 << 20, 2 << 20} {
		if err := first.ReserveObject(t.Context(), size); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
	if err := second.ReserveObject(t.Context(), 2<<20); err != nil {
		t.Errorf("an object that the reservation of its body covers: %v", err)
	}
	for range 2 {
		if err := second.ReserveObject(t.Context(), 3<<20); !errors.Is(err, memory.ErrExhausted) {
			t.Errorf("a second object: %v", err)
		}
	}
	small := b.NewReservation()
	if err := small.ReserveObject(t.Context(), 128<<10); err != nil {
		t.Errorf("a small object: %v", err)
	}
	second.Release()
	if err := first.ReserveObject(t.Context(), 32<<20); err != nil {
		t.Errorf("an object that exceeds the budget: %v", err)
	}
	first.Release()
	all := b.NewReservation()
	defer all.Release()
	if err := all.ReserveBody(t.Context(), 4<<20); err != nil {
		t.Errorf("not all memory was released: %v", err)
	}
}

// TestBudgetWaits checks that concurrent requests, most of which wait for memory, release all of it.
func TestBudgetWaits(t *testing.T) {
	t.Parallel()
	b := newBudget(t, 64<<20)
	var clients sync.WaitGroup
	for range 32 {
		clients.Go(func() {
			for range 50 {
				h := b.NewReservation()
				if err := h.ReserveBody(t.Context(), 3<<20); err != nil && !errors.Is(err, memory.ErrExhausted) {
					t.Error(err)
				}
				h.Release()
			}
		})
	}
	clients.Wait()
	all := b.NewReservation()
	defer all.Release()
	if err := all.ReserveBody(t.Context(), 4<<20); err != nil {
		t.Errorf("not all memory was released: %v", err)
	}
}

func TestNilBudget(t *testing.T) {
	t.Parallel()
	h := newBudget(t, 0).NewReservation()
	defer h.Release()
	if err := h.ReserveBody(t.Context(), 1<<40); err != nil {
		t.Error(err)
	}
}

func TestPressureFunc(t *testing.T) {
	t.Parallel()
	if memory.PressureFunc(0) != nil {
		t.Error("there is pressure without a limit")
	}
	if !memory.PressureFunc(1)() || memory.PressureFunc(1<<40)() {
		t.Error("the live heap is not compared with the limit")
	}
}

func BenchmarkSmallBody(b *testing.B) {
	budget, err := memory.NewBudget(1<<30, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		h := budget.NewReservation()
		if err := h.ReserveBody(b.Context(), 4<<10); err != nil {
			b.Fatal(err)
		}
		h.Release()
	}
}
