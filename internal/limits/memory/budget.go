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
	// maxUnreserved is the maximum size of a body, in bytes, for which no memory is reserved. Most bodies
	// are smaller, and the limit on requests in flight bounds their total memory.
	maxUnreserved = 64 << 10
	// memoryPerByte is the estimated memory of a large request per byte of its body. It covers the body,
	// the object, the modified object, and the stored encoding.
	memoryPerByte = 4
	// objectCopies is the number of copies of a decoded object during a request: the client's object and the
	// modified object.
	objectCopies = 2
	// maxWait is the maximum time that a request waits for memory.
	maxWait = time.Second
)

// ErrExhausted reports that other requests use all memory for large requests. The client should
// retry.
var ErrExhausted = errors.New("other requests use all memory for large requests")

// Budget limits the total memory of large requests. It is safe for concurrent use. A nil *Budget
// has no limit.
type Budget struct {
	size     int64
	free     *semaphore.Weighted
	reserved atomic.Int64
	rejected prometheus.Counter
}

// NewBudget returns a Budget that may use a fixed share of limit, a memory limit in bytes. It returns nil
// if limit is 0. It registers metrics with registerer unless registerer is nil, and returns an error if
// they are already registered.
func NewBudget(limit int64, registerer prometheus.Registerer) (*Budget, error) {
	if limit == 0 {
		return nil, nil
	}
	b := &Budget{size: limit / requestsShare, rejected: prometheus.NewCounter(prometheus.CounterOpts{
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
		b.rejected,
		gauge("mainstay_memory_limit_bytes", "Memory limit of the server, in bytes.", func() float64 { return float64(limit) }),
		gauge("mainstay_request_memory_limit_bytes", "Maximum memory of all large requests, in bytes.", func() float64 { return float64(b.size) }),
		gauge("mainstay_request_memory_bytes", "Estimated memory of large requests in progress, in bytes.", func() float64 { return float64(b.reserved.Load()) }),
	} {
		errs = append(errs, registerer.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register memory metrics: %w", err)
	}
	return b, nil
}

// Reservation is the memory that is reserved for a request. It is not safe for concurrent use.
type Reservation struct {
	budget *Budget
	bytes  int64
	failed bool // ReserveObject has returned ErrExhausted
}

// NewReservation returns an empty Reservation for a request. The caller must call Release at the
// end of the request.
func (b *Budget) NewReservation() Reservation { return Reservation{budget: b} }

// ReserveBody increases the reservation to cover a body of which the given number of bytes has been
// received. For small bodies it returns immediately; otherwise it blocks until memory is available, for at
// most a second. It returns the error of ctx, or ErrExhausted if the wait times out or the body exceeds the
// whole budget. On error, the reservation is unchanged.
func (h *Reservation) ReserveBody(ctx context.Context, bytes int) error {
	if h.budget == nil || bytes <= maxUnreserved {
		return nil
	}
	return h.increaseTo(ctx, memoryPerByte*int64(bytes))
}

// ReserveObject increases the reservation to cover the copies of a decoded object that needs the given number of
// bytes. An object usually needs about as much memory as its body, but an object with many empty elements needs
// much more. If the copies exceed the whole budget, ReserveObject reserves the whole budget, so that the server
// processes such objects one after another. In all other respects, it is like ReserveBody. After ErrExhausted,
// later calls do not wait again.
func (h *Reservation) ReserveObject(ctx context.Context, bytes int) error {
	if h.budget == nil {
		return nil
	}
	want := min(objectCopies*int64(bytes), h.budget.size)
	switch {
	case want <= memoryPerByte*maxUnreserved:
		return nil
	case h.failed:
		return ErrExhausted
	}
	err := h.increaseTo(ctx, want)
	h.failed = err == ErrExhausted
	return err
}

// increaseTo increases the reservation to the given number of bytes. It does nothing if the reservation is larger.
func (h *Reservation) increaseTo(ctx context.Context, bytes int64) error {
	if bytes <= h.bytes {
		return nil
	}
	if err := h.budget.acquire(ctx, bytes-h.bytes); err != nil {
		return err
	}
	h.bytes = bytes
	return nil
}

// Release releases the reserved memory. It may be called more than once.
func (h *Reservation) Release() {
	if h.bytes > 0 {
		h.budget.reserved.Add(-h.bytes)
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
			b.rejected.Inc()
			return ErrExhausted
		}
	}
	b.reserved.Add(bytes)
	return nil
}
