package aggregated

import (
	"maps"
	"slices"
	"sync"
)

// dirtySet collects the names of APIServices to sync. After start is called, it passes new names to a queue
// instead. It is safe for concurrent use.
type dirtySet struct {
	mu      sync.Mutex
	names   map[string]bool        // before start
	enqueue func(autoregistration) // nil before start
}

// autoregistration contains the arguments of Source.sync for one APIService.
type autoregistration struct {
	name     string
	starting bool
}

func newDirtySet() *dirtySet { return &dirtySet{names: map[string]bool{}} }

// add adds a name. It does not block.
func (m *dirtySet) add(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.enqueue != nil {
		m.enqueue(autoregistration{name: name})
		return
	}
	m.names[name] = true
}

// remove removes a name. It has no effect after start.
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
	clear(m.names)
	return names
}

// start passes the names in the set to enqueue, with starting set. From then on, add passes each new name to
// enqueue, which must not block.
func (m *dirtySet) start(enqueue func(autoregistration)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.names {
		enqueue(autoregistration{name, true})
	}
	m.names, m.enqueue = nil, enqueue
}
