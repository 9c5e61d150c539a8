package garbage

import (
	"strings"
	"sync"

	"mainstay.dev/mainstay/internal/controllers/changes"
)

// maxLiveOwners is the maximum number of owners in a liveOwners cache. The cache is cleared when it is full.
const maxLiveOwners = 512

// liveOwners caches owners that exist and whose deletion does not wait for dependents, so that later dependents
// of such an owner, such as the pods of a ReplicaSet, need no lookup. An owner is removed when the feed reports
// the start of its deletion. At that time, the graph contains all dependents for which the cached owner was
// used. The cache is safe for concurrent use.
type liveOwners struct {
	mu     sync.RWMutex
	owners map[uid]liveOwner
	// generation counts removals. The result of a lookup that started before a removal may be outdated.
	generation uint64
}

// liveOwner is the location of an owner, as in an owner reference of a namespace.
type liveOwner struct{ apiVersion, kind, name, namespace string }

func newLiveOwner(o changes.Owner, namespace string) liveOwner {
	return liveOwner{o.APIVersion, o.Kind, o.Name, namespace}
}

// containsAll reports whether all owners of a dependent in a namespace are cached.
func (l *liveOwners) containsAll(owners []changes.Owner, namespace string) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, o := range owners {
		if known, ok := l.owners[parseUID(o.UID)]; !ok || known != newLiveOwner(o, namespace) {
			return false
		}
	}
	return true
}

// currentGeneration returns the generation to pass to add. The caller must call it before it looks up the
// owner.
func (l *liveOwners) currentGeneration() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.generation
}

// add caches an owner. since is the result of currentGeneration before the owner was looked up. add does
// nothing if any owner has been removed since then.
func (l *liveOwners) add(o changes.Owner, namespace string, since uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.generation != since {
		return
	}
	if l.owners == nil || len(l.owners) >= maxLiveOwners {
		l.owners = make(map[uid]liveOwner)
	}
	// The strings may share memory with the stored objects.
	l.owners[parseUID(o.UID)] = liveOwner{strings.Clone(o.APIVersion), strings.Clone(o.Kind), strings.Clone(o.Name), strings.Clone(namespace)}
}

func (l *liveOwners) remove(u uid) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.generation++
	delete(l.owners, u)
}

func (l *liveOwners) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.generation++
	l.owners = nil
}
