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

// calm is how long no expensive work must have been done for the processor that was
// added to go again. Each change stops the program for some microseconds.
const calm = time.Second

// processors runs CPU-heavy work on at most GOMAXPROCS-1 threads, and raises GOMAXPROCS by one
// while such work is running. If all of Go's processors are busy, Go polls the network only every
// ten milliseconds; with one more, the operating system shares the real processors. At rest, an
// additional processor would cost a tenth of every request.
type processors struct {
	limit *semaphore.Weighted
	calm  time.Duration
	// fixed reports that the user has set GOMAXPROCS.
	fixed bool

	mu      sync.Mutex
	working int  // number of holders
	added   bool // one processor
	idle    *time.Timer
}

// newProcessors returns the limiter of this process, because GOMAXPROCS is global.
func newProcessors(calm time.Duration) *processors {
	return &processors{
		limit: semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)-1))),
		calm:  calm, fixed: os.Getenv("GOMAXPROCS") != "",
	}
}

// Acquire waits until expensive work may begin, as a semaphore does.
func (p *processors) Acquire(ctx context.Context, n int64) error {
	if err := p.limit.Acquire(ctx, n); err != nil {
		return err
	}
	p.begin()
	return nil
}

// begin adds the processor.
func (p *processors) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.working++
	if !p.added && !p.fixed {
		p.added = true
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}

// Release ends expensive work.
func (p *processors) Release(n int64) {
	p.limit.Release(n)
	p.end()
}

// end has the processor go, some time after the last work.
func (p *processors) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.working--
	switch {
	case p.working > 0 || !p.added:
	case p.idle == nil:
		p.idle = time.AfterFunc(p.calm, p.settle)
	default:
		p.idle.Reset(p.calm)
	}
}

// settle lowers GOMAXPROCS again, unless there is new work, whose end resets the timer.
func (p *processors) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.working == 0 && p.added {
		p.added = false
		runtime.SetDefaultGOMAXPROCS()
	}
}

// turns returns the turns of this process. While changes wait for theirs there is a
// processor more, too: one that waits for the disk is not to be the only one.
func (p *processors) turns() *processor.Turns {
	return processor.New(processor.Config{Processors: p.count, OnCrowd: func(waiting bool) {
		if waiting {
			p.begin()
		} else {
			p.end()
		}
	}})
}

// count returns how many processors there are without the one that was added.
func (p *processors) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.added {
		return runtime.GOMAXPROCS(0) - 1
	}
	return runtime.GOMAXPROCS(0)
}
