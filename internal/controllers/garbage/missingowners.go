package garbage

import "sync"

// maxMissingOwners is the maximum number of owners in a missingOwners cache. The cache is cleared when it is
// full.
const maxMissingOwners = 512

// missingOwner is an owner reference to an object that does not exist.
type missingOwner struct{ path, namespace, name, uid string }

// missingOwners caches owner references to objects that do not exist. It has at most one entry per UID. An
// entry is removed when an object with its UID is created, which is possible when a deleted object is restored.
// The cache is safe for concurrent use.
type missingOwners struct {
	mu     sync.RWMutex
	owners map[string]missingOwner // by UID
	// generation counts creations. The result of a lookup that started before a creation may be outdated.
	generation uint64
}

func (m *missingOwners) has(owner missingOwner) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	known, ok := m.owners[owner.uid]
	return ok && known == owner
}

// currentGeneration returns the generation to pass to add. The caller must call it before it looks up the
// owner.
func (m *missingOwners) currentGeneration() uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.generation
}

// add caches an owner. since is the result of currentGeneration before the owner was looked up. add does
// nothing if any object has been created since then.
func (m *missingOwners) add(owner missingOwner, since uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation != since {
		return
	}
	if m.owners == nil || len(m.owners) >= maxMissingOwners {
		m.owners = make(map[string]missingOwner)
	}
	m.owners[owner.uid] = owner
}

// created removes the entry with the UID of an object that was created.
func (m *missingOwners) created(uid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.generation++
	delete(m.owners, uid)
}
