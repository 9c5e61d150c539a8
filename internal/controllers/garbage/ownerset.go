package garbage

import "sync"

// maxCachedOwners is the maximum number of owners in an ownerSet.
const maxCachedOwners = 512

// ownerSet is a set of owners with a limited size. It is cleared when it is full. It is safe for concurrent
// use.
type ownerSet[K comparable] struct {
	mu     sync.RWMutex
	owners map[K]bool
}

func (r *ownerSet[K]) has(owner K) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.owners[owner]
}

func (r *ownerSet[K]) add(owner K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners == nil || len(r.owners) >= maxCachedOwners {
		r.owners = make(map[K]bool)
	}
	r.owners[owner] = true
}
