package garbage

import "sync"

// maxAbsent bounds the owners that are remembered to be absent.
const maxAbsent = 512

// absentOwner is an owner that was looked for where an owner reference says.
type absentOwner struct{ path, namespace, name, uid string }

// absentOwners remembers some owners that were not there: a uid that is gone does not
// come back, and all dependents of one owner ask for it.
type absentOwners struct {
	mu     sync.RWMutex
	owners map[absentOwner]bool
}

func (a *absentOwners) has(o absentOwner) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.owners[o]
}

func (a *absentOwners) add(o absentOwner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.owners == nil || len(a.owners) >= maxAbsent {
		a.owners = make(map[absentOwner]bool)
	}
	a.owners[o] = true
}
