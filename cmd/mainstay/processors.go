package main

import (
	"context"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"mainstay.dev/mainstay/internal/limits/processor"
)

// settleDelay is the time without CPU-heavy work after which the added processor is removed. Each
// change of GOMAXPROCS stops the program for some microseconds.
const settleDelay = time.Second

// processors runs CPU-heavy work on at most GOMAXPROCS-1 threads, and raises GOMAXPROCS by one
// while such work is running. If all processors of the Go scheduler are busy, it polls the network
// only every ten milliseconds. With an additional one, the operating system shares the real
// processors. Without CPU-heavy work, the additional processor would make each request 10 % slower.
type processors struct {
	limit       *semaphore.Weighted
	settleDelay time.Duration
	// fixed disables changes of GOMAXPROCS, because the user has set it.
	fixed bool

	mu      sync.Mutex
	working int  // the number of running and waiting tasks
	added   bool // GOMAXPROCS is raised by one
	idle    *time.Timer
}

// newProcessors returns the limiter of this process, because GOMAXPROCS is global.
func newProcessors(settleDelay time.Duration) *processors {
	return &processors{
		limit:       semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)-1))),
		settleDelay: settleDelay, fixed: os.Getenv("GOMAXPROCS") != "",
	}
}

// Acquire waits until CPU-heavy work may start. It implements registry.Limiter.
func (p *processors) Acquire(ctx context.Context, n int64) error {
	if err := p.limit.Acquire(ctx, n); err != nil {
		return err
	}
	p.begin()
	return nil
}

// begin adds the processor for a task.
func (p *processors) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.working++
	if !p.added && !p.fixed {
		p.added = true
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}

// Release ends CPU-heavy work.
func (p *processors) Release(n int64) {
	p.limit.Release(n)
	p.end()
}

// end removes the processor after settleDelay, if this was the last task.
func (p *processors) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.working--
	switch {
	case p.working > 0 || !p.added:
	case p.idle == nil:
		p.idle = time.AfterFunc(p.settleDelay, p.settle)
	default:
		p.idle.Reset(p.settleDelay)
	}
}

// settle lowers GOMAXPROCS, unless there is new work, whose end resets the timer.
func (p *processors) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.working == 0 && p.added {
		p.added = false
		runtime.SetDefaultGOMAXPROCS()
	}
}

// cpuSlots returns the CPU slots of this process. The processor is also added while writes wait for a
// slot, because the holder of a slot may occupy its processor during a disk sync.
func (p *processors) cpuSlots() *processor.Turns {
	return processor.New(processor.Config{Processors: p.count, OnCrowd: func(waiting bool) {
		if waiting {
			p.begin()
		} else {
			p.end()
		}
	}})
}

// count returns the number of processors without the added one.
func (p *processors) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.added {
		return runtime.GOMAXPROCS(0) - 1
	}
	return runtime.GOMAXPROCS(0)
}
