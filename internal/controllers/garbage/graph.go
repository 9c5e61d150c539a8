package garbage

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/tidwall/btree"
)

// graph contains the owner references of all objects, keyed by the UIDs of the owners. It stores only objects
// that have owners or dependents, and does not copy objects: all other data is read from storage.
//
// An edge is a string in a B-tree. It consists of the owner's UID, a byte that specifies whether the dependent
// blocks the deletion of the owner, and the dependent's path and name. All dependents of an owner are therefore
// adjacent, and blocking dependents come first.
//
// The methods are safe for concurrent use.
type graph struct {
	mu struct {
		sync.RWMutex
		edges *btree.BTreeG[string]
		// complete is false from a reset until all objects have been added.
		complete bool
		// terminating contains the owners whose foreground or orphan deletion is in progress, by UID.
		// terminatingNames is the inverse map.
		terminating      map[uid]object
		terminatingNames map[object]uid
		paths            []string
		numbers          map[string]uint32
	}
}

// uid is a UID in binary form, or the hash of a UID that is not a UUID.
type uid [16]byte

// object identifies a stored object. path is the number that the graph assigned to its storage path. name has
// the form namespace/name.
type object struct {
	path uint32
	name string
}

func newGraph() *graph {
	g := &graph{}
	g.reset()
	return g
}

func (g *graph) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.complete = false
	g.mu.edges = btree.NewBTreeGOptions(func(a, b string) bool { return a < b }, btree.Options{NoLocks: true})
	g.mu.terminating, g.mu.terminatingNames = map[uid]object{}, map[object]uid{}
	if g.mu.numbers == nil { // later resets keep the numbers, because queued objects contain them
		g.mu.numbers = map[string]uint32{}
	}
}

// setComplete records that all objects have been added since the last reset.
func (g *graph) setComplete() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.complete = true
}

// objectAt returns the object with the given path, namespace and name. It assigns a number to the path if the
// path is new.
func (g *graph) objectAt(path, namespace, name string) object {
	g.mu.Lock()
	defer g.mu.Unlock()
	number, ok := g.mu.numbers[path]
	if !ok {
		number = uint32(len(g.mu.paths))
		path = strings.Clone(path)
		g.mu.paths = append(g.mu.paths, path)
		g.mu.numbers[path] = number
	}
	return object{number, namespace + "/" + name}
}

// location returns the path, namespace and name of an object.
func (g *graph) location(o object) (path, namespace, name string) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	namespace, name, _ = strings.Cut(o.name, "/")
	return g.mu.paths[o.path], namespace, name
}

// parseUID converts a UID to binary form. Clients can write any text, so it hashes text that is not a UUID.
func parseUID(text string) (u uid) {
	if len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' {
		plain := text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
		if n, err := hex.Decode(u[:], []byte(plain)); err == nil && n == len(u) && strings.ToLower(plain) == plain {
			return u
		}
	}
	sum := sha256.Sum256([]byte(text))
	copy(u[:], sum[:])
	return u
}

// The values of the byte that follows the owner's UID in an edge.
const (
	edgeBlocking    = 0
	edgeNonBlocking = 1
)

func encodeEdge(owner uid, blocking bool, dependent object) string {
	b := make([]byte, 0, len(owner)+5+len(dependent.name))
	b = append(b, owner[:]...)
	if blocking {
		b = append(b, edgeBlocking)
	} else {
		b = append(b, edgeNonBlocking)
	}
	b = binary.BigEndian.AppendUint32(b, dependent.path)
	return string(append(b, dependent.name...))
}

func decodeDependent(edge string) object {
	const head = len(uid{}) + 1
	return object{binary.BigEndian.Uint32([]byte(edge[head : head+4])), edge[head+4:]}
}

func (g *graph) add(owner uid, blocking bool, dependent object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.edges.Set(encodeEdge(owner, blocking, dependent))
}

func (g *graph) remove(owner uid, blocking bool, dependent object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.edges.Delete(encodeEdge(owner, blocking, dependent))
}

// dependents returns the dependents of an owner. complete is false if the graph may lack some of them. The
// caller owns the slice.
func (g *graph) dependents(owner uid) (found []object, complete bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	g.mu.edges.Ascend(string(owner[:]), func(edge string) bool {
		if edge[:len(owner)] != string(owner[:]) {
			return false
		}
		found = append(found, decodeDependent(edge))
		return true
	})
	return found, g.mu.complete
}

// hasDependents reports whether an owner has dependents, and whether any of them blocks the deletion of the
// owner. Both results are true while the graph is not complete.
func (g *graph) hasDependents(owner uid) (any, blocking bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if !g.mu.complete {
		return true, true
	}
	g.mu.edges.Ascend(string(owner[:]), func(edge string) bool {
		if any = edge[:len(owner)] == string(owner[:]); any {
			blocking = edge[len(owner)] == edgeBlocking
		}
		return false
	})
	return any, blocking
}

// setTerminating records whether the deletion of an owner waits for its dependents.
func (g *graph) setTerminating(owner uid, o object, terminating bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if terminating {
		g.mu.terminating[owner], g.mu.terminatingNames[o] = o, owner
		return
	}
	delete(g.mu.terminating, owner)
	delete(g.mu.terminatingNames, o)
}

// terminatingOwner returns the owner with the given UID if its deletion waits for its dependents.
func (g *graph) terminatingOwner(owner uid) (object, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	o, ok := g.mu.terminating[owner]
	return o, ok
}

// isTerminating reports whether the deletion of an object waits for its dependents.
func (g *graph) isTerminating(o object) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	_, ok := g.mu.terminatingNames[o]
	return ok
}
