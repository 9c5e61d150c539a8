package garbage

import (
	"strings"
	"sync"

	"mainstay.dev/mainstay/internal/controllers/changes"
)

// maxLiving bounds the owners that are remembered to be there.
const maxLiving = 512

// livingOwners caches existing owners that do not wait for dependents, so that further dependents,
// such as the pods of a ReplicaSet, need no lookup. An owner is removed when the feed reports its
// deletion or the start of its deletion, at which the graph contains its dependents.
type livingOwners struct {
	mu     sync.RWMutex
	owners map[uid]livingOwner
	// forgotten counts the calls of forget: results of earlier lookups may be wrong afterwards.
	forgotten uint64
}

// livingOwner is the location of an owner in the terms of an owner reference in a namespace.
type livingOwner struct{ apiVersion, kind, name, namespace string }

func livingAt(o changes.Owner, namespace string) livingOwner {
	return livingOwner{o.APIVersion, o.Kind, o.Name, namespace}
}

// all reports whether all owners of a dependent in a namespace are known to live.
func (l *livingOwners) all(owners []changes.Owner, namespace string) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, o := range owners {
		if known, ok := l.owners[uidOf(o.UID)]; !ok || known != livingAt(o, namespace) {
			return false
		}
	}
	return true
}

// since is to be called before an owner is looked up, for add.
func (l *livingOwners) since() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.forgotten
}

// add caches an owner that was found after since, unless forget was called in between.
func (l *livingOwners) add(o changes.Owner, namespace string, since uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forgotten != since {
		return
	}
	if l.owners == nil || len(l.owners) >= maxLiving {
		l.owners = make(map[uid]livingOwner)
	}
	// The texts may be parts of whole stored objects.
	l.owners[uidOf(o.UID)] = livingOwner{strings.Clone(o.APIVersion), strings.Clone(o.Kind), strings.Clone(o.Name), strings.Clone(namespace)}
}

func (l *livingOwners) forget(u uid) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgotten++
	delete(l.owners, u)
}

func (l *livingOwners) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgotten++
	l.owners = nil
}
