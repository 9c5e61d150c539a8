package custom

import (
	"sync"
	"sync/atomic"
)

// createBarrier keeps objects of a definition from being created while all of them
// are deleted with it. All generations of a definition share one: a request that
// began under an older generation may still be about to create something.
type createBarrier struct {
	closed atomic.Bool
	// hidden: nothing is served any more, whatever events of the definition say.
	hidden atomic.Bool
	// creating is read-locked by requests that create.
	creating sync.RWMutex
}

// enter reports whether objects may be created. Where they may, the caller calls
// leave when it is done.
func (b *createBarrier) enter() (leave func(), open bool) {
	if b.closed.Load() {
		return nil, false
	}
	b.creating.RLock()
	if b.closed.Load() {
		b.creating.RUnlock()
		return nil, false
	}
	return b.creating.RUnlock, true
}

// close makes enter refuse from then on.
func (b *createBarrier) close() { b.closed.Store(true) }

// wait waits until all callers that entered a closed barrier have left.
func (b *createBarrier) wait() {
	b.creating.Lock()
	defer b.creating.Unlock()
}
