package garbage

import "sync"

// maxRemembered bounds the owners that are remembered.
const maxRemembered = 512

// absentOwner is an owner that was looked for where an owner reference says.
type absentOwner struct{ path, namespace, name, uid string }

// remembered remembers some owners that are not there: a uid that is gone does not come
// back, and all dependents of one owner ask for it.
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
