package cache

import "sync"

// notifier notifies watches of the next change. It wakes polling watches with a function call, without a
// goroutine, and blocking watches with a channel. notify is called while watchCache.mu is held, and watches
// register while watchCache.mu is held for reading, so that no watch misses a change. A notifier is safe for
// concurrent use. The zero value is ready to use.
type notifier struct {
	mu sync.Mutex
	// changed is closed by the next notify; nil without blocking watches.
	changed    chan struct{}
	registered []*logStream
}

// next returns a channel that is closed by the next notify.
func (n *notifier) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.changed
}

// register makes the next notify call wake once. A second call before the next notify replaces wake.
func (n *notifier) register(s *logStream, wake func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s.wake = wake
	if s.registration == 0 {
		n.registered = append(n.registered, s)
		s.registration = len(n.registered)
	}
}

// unregister undoes register. It has no effect if s is not registered.
func (n *notifier) unregister(s *logStream) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.registration == 0 {
		return
	}
	last := len(n.registered) - 1
	moved := n.registered[last]
	n.registered[s.registration-1], moved.registration = moved, s.registration
	n.registered[last], s.registration = nil, 0
	n.registered = n.registered[:last]
}

// notify wakes all watches and unregisters them.
func (n *notifier) notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
	for i, s := range n.registered {
		s.registration = 0
		s.wake()
		n.registered[i] = nil
	}
	n.registered = n.registered[:0]
}
