package processor

import (
	"sync"
	"sync/atomic"
	"time"
)

// netPoller has Go's network poller run, and those for whom it has news run before who
// called it. Go asks it when nothing is left to run, and otherwise every ten milliseconds
// only; one who waits for news of a pipe has it asked.
type netPoller struct {
	last    atomic.Int64 // when it was asked, by the clock of Turns
	polling sync.Mutex   // by one at a time
	pipe    *pipe        // made when it is first needed; guarded by polling
	broken  bool         // there can be no pipe
}

// poll asks the poller if that was last done long ago. Whoever finds that it is being asked
// waits for that: did others go on meanwhile, there would always be something to run.
func (p *netPoller) poll(clock func() time.Duration) {
	if !p.due(clock()) {
		return
	}
	p.polling.Lock()
	defer p.polling.Unlock()
	if !p.due(clock()) {
		return // somebody has asked it
	}
	defer func() { p.last.Store(int64(clock())) }()
	if p.pipe == nil && !p.broken {
		var err error
		p.pipe, err = newPipe()
		p.broken = err != nil // it goes without, as late as Go asks by itself
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
