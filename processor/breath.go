package processor

import (
	"sync"
	"sync/atomic"
	"time"
)

// breath is a pause after which all is runnable, and before who takes it, for which news
// had come from the network. Go looks for news when nothing is left to run, and otherwise
// every ten milliseconds only; one who waits for news of a pipe has it look.
type breath struct {
	last   atomic.Int64 // when it was taken, by the clock of Turns
	taking sync.Mutex   // by one at a time
	pipe   *pipe        // made when it is first needed; guarded by taking
	broken bool         // there can be no pipe
}

// take takes a breath if the last one is long ago, and reports whether it did. Whoever finds
// that one is being taken waits for it: did others go on meanwhile, there would always be
// something to run.
func (b *breath) take(clock func() time.Duration) bool {
	if !b.due(clock()) {
		return false
	}
	b.taking.Lock()
	defer b.taking.Unlock()
	if !b.due(clock()) {
		return true // somebody has taken it
	}
	defer func() { b.last.Store(int64(clock())) }()
	if b.pipe == nil && !b.broken {
		var err error
		b.pipe, err = newPipe()
		b.broken = err != nil // it goes without, as late as Go looks by itself
	}
	if b.broken {
		return false
	}
	b.pipe.pass()
	return true
}

func (b *breath) due(now time.Duration) bool { return now-time.Duration(b.last.Load()) >= slice }

func (b *breath) close() error {
	b.taking.Lock()
	defer b.taking.Unlock()
	b.broken = true
	if b.pipe == nil {
		return nil
	}
	p := b.pipe
	b.pipe = nil
	return p.close()
}
