package processor

import (
	"sync"
	"sync/atomic"
	"time"
)

// netPoller runs Go's network poller and the goroutines that become runnable. Go polls the network
// if no goroutine is runnable, and otherwise only every ten milliseconds; waiting for a pipe
// triggers a poll.
type netPoller struct {
	last    atomic.Int64 // time of the last poll, by the clock of Turns
	polling sync.Mutex   // by one at a time
	pipe    *pipe        // made when it is first needed; guarded by polling
	broken  bool         // there can be no pipe
}

// poll polls the network unless the last poll is recent. Concurrent callers wait for a running
// poll: otherwise there would always be runnable goroutines.
func (p *netPoller) poll(clock func() time.Duration) {
	if !p.due(clock()) {
		return
	}
	p.polling.Lock()
	defer p.polling.Unlock()
	if !p.due(clock()) {
		return // another goroutine has polled
	}
	defer func() { p.last.Store(int64(clock())) }()
	if p.pipe == nil && !p.broken {
		var err error
		p.pipe, err = newPipe()
		p.broken = err != nil // continue without polling, as late as Go polls itself
	}
	if !p.broken {
		p.pipe.pass()
	}
}

func (p *netPoller) due(now time.Duration) bool { return now-time.Duration(p.last.Load()) >= slice }

func (p *netPoller) close() error {
	p.polling.Lock()
	defer p.polling.Unlock()
	p.broken = true
	if p.pipe == nil {
		return nil
	}
	open := p.pipe
	p.pipe = nil
	return open.close()
}
