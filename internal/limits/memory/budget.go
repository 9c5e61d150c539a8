package memory

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
)

const (
	// small is what a request may hold that is never asked to wait: nearly all hold
	// less, and what they can add up to is bounded by the number of requests in flight.
	small = 64 << 10
	// perByte is what the server holds of a large request for each byte of its body: the
	// body itself, the object, what it is changed into, and the stored encoding.
	perByte = 4
	// maxWait is how long a request waits for memory: then those that hold it are not
	// about to be done, and its client is told to come back.
	maxWait = time.Second
)

// ErrExhausted means that requests hold as much memory as they may, and that the one that
// gets it should be sent again later.
var ErrExhausted = errors.New("requests hold as much memory as they may")

// Budget bounds the memory that large requests hold together. It may be used concurrently.
// A nil Budget is without bounds.
type Budget struct {
	size    int64
	free    *semaphore.Weighted
	held    atomic.Int64
	refused prometheus.Counter
}

// NewBudget returns the budget of requests under a limit, in bytes; nil if there is none
// (0). registerer gets its metrics; nil has none.
func NewBudget(limit int64, registerer prometheus.Registerer) (*Budget, error) {
	if limit == 0 {
		return nil, nil
	}
	b := &Budget{size: limit / requestsShare, refused: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mainstay_request_memory_refused_total", Help: "Requests that were refused because others held all memory for requests.",
	})}
	b.free = semaphore.NewWeighted(b.size)
	if registerer == nil {
		return b, nil
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		b.refused,
		gauge("mainstay_memory_limit_bytes", "How much memory the server is to use.", func() float64 { return float64(limit) }),
		gauge("mainstay_request_memory_limit_bytes", "How much memory large requests may hold together.", func() float64 { return float64(b.size) }),
		gauge("mainstay_request_memory_bytes", "How much memory large requests hold, by estimate.", func() float64 { return float64(b.held.Load()) }),
	} {
		errs = append(errs, registerer.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register the metrics of memory: %w", err)
	}
	return b, nil
}

// Hold is what one request holds. It belongs to one goroutine at a time.
type Hold struct {
	budget *Budget
	bytes  int64
}

// Hold returns what a request holds at its beginning: nothing. The request must Release it.
func (b *Budget) Hold() Hold { return Hold{budget: b} }

// Body makes room for a body of which so many bytes have come. Small ones never wait.
// An error is that of ctx, or ErrExhausted.
func (h *Hold) Body(ctx context.Context, bytes int) error {
	want := perByte * int64(bytes)
	if h.budget == nil || bytes <= small || want <= h.bytes {
		return nil
	}
	if err := h.budget.acquire(ctx, want-h.bytes); err != nil {
		return err
	}
	h.bytes = want
	return nil
}

// Release gives back what is held. It may be called again.
func (h *Hold) Release() {
	if h.bytes > 0 {
		h.budget.held.Add(-h.bytes)
		h.budget.free.Release(h.bytes)
		h.bytes = 0
	}
}

func (b *Budget) acquire(ctx context.Context, bytes int64) error {
	if !b.free.TryAcquire(bytes) {
		waiting, cancel := context.WithTimeout(ctx, maxWait)
		defer cancel()
		if b.free.Acquire(waiting, bytes) != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b.refused.Inc()
			return ErrExhausted
		}
	}
	b.held.Add(bytes)
	return nil
}
