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
	// small is the amount that a request may use without waiting, in bytes: most use less, and the
	// number of requests in flight bounds the total.
	small = 64 << 10
	// perByte is the estimated memory of a large request for each byte of its body: the body, the
	// object, the modified object, and the stored encoding.
	perByte = 4
	// maxWait is the maximum time that a request waits for memory. After that, its client must
	// retry.
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

// NewBudget returns a budget for requests under a memory limit in bytes; nil without a limit (0).
// registerer registers the metrics; may be nil.
func NewBudget(limit int64, registerer prometheus.Registerer) (*Budget, error) {
	if limit == 0 {
		return nil, nil
	}
	b := &Budget{size: limit / requestsShare, refused: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mainstay_request_memory_refused_total", Help: "Number of requests rejected because other requests use all memory for requests.",
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

// Hold is the memory of a request. It is not safe for concurrent use.
type Hold struct {
	budget *Budget
	bytes  int64
}

// Hold returns an empty Hold for a request, which must Release it.
func (b *Budget) Hold() Hold { return Hold{budget: b} }

// Body reserves memory for the received bytes of a body. Small amounts never wait. The error is
// that of ctx, or ErrExhausted.
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

// Release releases the memory. It is idempotent.
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
