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
func (f *createBarrier) enter() (leave func(), open bool) {
	if f.closed.Load() {
		return nil, false
	}
	f.creating.RLock()
	if f.closed.Load() {
		f.creating.RUnlock()
		return nil, false
	}
	return f.creating.RUnlock, true
}

// close makes enter refuse from then on.
func (f *createBarrier) close() { f.closed.Store(true) }

// wait waits until all callers that entered a closed barrier have left.
func (f *createBarrier) wait() {
	f.creating.Lock()
	defer f.creating.Unlock()
}
