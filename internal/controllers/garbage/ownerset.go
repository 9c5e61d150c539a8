package garbage

import "sync"

// maxCachedOwners is the maximum number of owners in an ownerSet.
const maxCachedOwners = 512

// missingOwner is the location and UID of an owner reference to an object that does not exist.
type missingOwner struct{ path, namespace, name, uid string }

// ownerSet is a set of owners of limited size, which is cleared when it is full. Entries stay valid
// because the UID of a deleted object is not used again. It is safe for concurrent use.
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
