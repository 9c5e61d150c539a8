package cache

import "sync"

// bell notifies watches of the next change: polling watches with a function, without a goroutine,
// and blocking watches with a channel. It notifies while watchCache.mu is held, and watches
// register while it is held for reading, so no watch misses a change.
type bell struct {
	mu sync.Mutex
	// rung is closed by the next change; nil without blocked watches.
	rung    chan struct{}
	waiting []*source
}

// channel returns a channel that is closed by the next change.
func (b *bell) channel() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

// add has the next change call wake, once.
func (b *bell) add(s *source, wake func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.wake = wake
	if s.place == 0 {
		b.waiting = append(b.waiting, s)
		s.place = len(b.waiting)
	}
}

// remove undoes add.
func (b *bell) remove(s *source) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.place == 0 {
		return
	}
	n := len(b.waiting) - 1
	last := b.waiting[n]
	b.waiting[s.place-1], last.place = last, s.place
	b.waiting[n], s.place = nil, 0
	b.waiting = b.waiting[:n]
}

// ring wakes all.
func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
	for i, s := range b.waiting {
		s.place = 0
		s.wake()
		b.waiting[i] = nil
	}
	b.waiting = b.waiting[:0]
}
