package aggregated

import (
	"maps"
	"slices"
	"sync"
)

// dirtySet is the set of names of APIServices to sync. One consumer waits for ready and calls
// drain. It is safe for concurrent use.
type dirtySet struct {
	mu    sync.Mutex
	names map[string]bool
	ready chan struct{} // contains a token if names were added since the last receive
}

func newDirtySet() *dirtySet {
	return &dirtySet{names: map[string]bool{}, ready: make(chan struct{}, 1)}
}

func (m *dirtySet) add(names ...string) {
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

func (m *dirtySet) remove(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.names, name)
}

// drain empties the set and returns its names, sorted.
func (m *dirtySet) drain() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := slices.Sorted(maps.Keys(m.names))
	m.names = map[string]bool{}
	return names
}
