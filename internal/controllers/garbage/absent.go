package garbage

import "sync"

// maxRemembered bounds the owners that are remembered.
const maxRemembered = 512

// absentOwner is an owner that does not exist at the location of an owner reference.
type absentOwner struct{ path, namespace, name, uid string }

// remembered caches missing owners: a deleted UID never reappears, and all dependents of an owner
// look it up.
type remembered[K comparable] struct {
	mu     sync.RWMutex
	owners map[K]bool
}

func (r *remembered[K]) has(owner K) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.owners[owner]
}

func (r *remembered[K]) add(owner K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners == nil || len(r.owners) >= maxRemembered {
		r.owners = make(map[K]bool)
	}
	r.owners[owner] = true
}
