package custom

import (
	"context"
	"sync"
)

// createGate admits requests that create objects of a definition until the gate is closed. A closed gate never
// opens again. All entries and generations of a definition share it, because a request that started in an
// earlier generation may still create an object. The zero value is open. It is safe for concurrent use.
type createGate struct {
	mu struct {
		sync.Mutex
		closed   bool
		creating int // number of admitted requests that have not ended
		// drained is closed when creating becomes 0. It is nil if no caller waits.
		drained chan struct{}
	}
}

// acquire admits a request that creates objects. It returns false if the gate is closed; otherwise the
// caller must call release after the creation.
func (g *createGate) acquire() (release func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.closed {
		return nil, false
	}
	g.mu.creating++
	return g.release, true
}

func (g *createGate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.creating--
	if g.mu.creating == 0 && g.mu.drained != nil {
		close(g.mu.drained)
		g.mu.drained = nil
	}
}

// close makes all later calls to acquire fail. It does not block.
func (g *createGate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.closed = true
}

// drain closes the gate, and blocks until all admitted requests have ended or ctx is done. In the
// latter case it returns ctx.Err().
func (g *createGate) drain(ctx context.Context) error {
	drained := g.closeAndNotify()
	if drained == nil {
		return nil
	}
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closeAndNotify closes the gate. It returns a channel that is closed when all admitted requests
// have ended, or nil if there are none.
func (g *createGate) closeAndNotify() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.closed = true
	if g.mu.creating == 0 {
		return nil
	}
	if g.mu.drained == nil {
		g.mu.drained = make(chan struct{})
	}
	return g.mu.drained
}
