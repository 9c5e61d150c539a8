package aggregated

import (
	"maps"
	"slices"
	"sync"
)

// marks is a set of names that one goroutine waits for. It is safe for
// concurrent use.
type marks struct {
	mu    sync.Mutex
	names map[string]bool
	ready chan struct{} // holds one token while there are names
}

func newMarks() *marks { return &marks{names: map[string]bool{}, ready: make(chan struct{}, 1)} }

func (m *marks) add(names ...string) {
	if len(names) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		m.names[name] = true
	}
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// drop takes a name out.
func (m *marks) drop(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.names, name)
}

// take empties the set.
func (m *marks) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := slices.Sorted(maps.Keys(m.names))
	m.names = map[string]bool{}
	return names
}
