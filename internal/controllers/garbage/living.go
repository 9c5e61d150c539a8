package garbage

import (
	"strings"
	"sync"

	"mainstay.dev/mainstay/internal/controllers/changes"
)

// maxLiving bounds the owners that are remembered to be there.
const maxLiving = 512

// livingOwners remembers some owners that were there and did not wait for their
// dependents, so that a new dependent of one of them costs no look-up: most come in
// crowds, as the pods of a ReplicaSet do. An owner is forgotten when the feed tells of its
// end, or of the beginning of its end, and both find its dependents in the graph.
type livingOwners struct {
	mu     sync.RWMutex
	owners map[uid]livingOwner
	// forgotten counts the calls of forget: what was looked up before one of them
	// may be wrong after it.
	forgotten uint64
}

// livingOwner is where an owner was found, as owner references in a namespace say it.
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

// add remembers an owner that was found after since, if nothing was forgotten meanwhile.
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
