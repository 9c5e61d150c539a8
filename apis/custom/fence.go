package custom

import (
	"sync"
	"sync/atomic"
)

// fence stands between those who create objects of a definition and who removes
// all of them at its end. All generations of a definition share one: a request
// that began under an older one may still be about to create something.
type fence struct {
	closed atomic.Bool
	// hidden: nothing is served any more, whatever is still told of the definition.
	hidden atomic.Bool
	// creating is held for reading by those who may create.
	creating sync.RWMutex
}

// enter tells whether objects may be created. Whoever may leaves when that is
// done.
func (f *fence) enter() (leave func(), open bool) {
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

// close lets nobody enter any more.
func (f *fence) close() { f.closed.Store(true) }

// wait waits until all who entered a closed fence have left.
func (f *fence) wait() {
	f.creating.Lock()
	defer f.creating.Unlock()
}
