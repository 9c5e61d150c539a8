package custom

import (
	"sync"
	"sync/atomic"
)

// createBarrier prevents the creation of objects while a deletion of their definition deletes all
// of them. All generations of a definition share it, because a request of an older generation may
// still be about to create an object.
type createBarrier struct {
	closed atomic.Bool
	// hidden: the resource is no longer served, regardless of events of the definition.
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
