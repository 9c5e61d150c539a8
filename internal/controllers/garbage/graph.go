package garbage

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/tidwall/btree"
)

// graph contains the owner references of all objects, by the UIDs of the owners. It stores only
// objects that have owners or dependents, and no copies of objects: other data is read from
// storage.
//
// An edge is one string in a tree: the owner's UID, whether the dependent blocks its deletion, and
// the dependent's path and name. All dependents of an owner are therefore adjacent, and blocking
// ones are first.
//
// The methods are safe for concurrent use.
type graph struct {
	mu struct {
		sync.RWMutex
		edges *btree.BTreeG[string]
		// dying are the owners with foreground deletion or orphaning in progress, by UID and by
		// name.
		dying      map[uid]object
		dyingNames map[object]uid
		paths      []string
		numbers    map[string]uint32
	}
}

// uid is a uid, of which no two are the same.
type uid [16]byte

// object names a stored object: the number of its path, and namespace/name.
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
	g.mu.edges = btree.NewBTreeGOptions(func(a, b string) bool { return a < b }, btree.Options{NoLocks: true})
	g.mu.dying, g.mu.dyingNames = map[uid]object{}, map[object]uid{}
	if g.mu.numbers == nil { // objects that wait in a queue keep their numbers
		g.mu.numbers = map[string]uint32{}
	}
}

// object returns the name of an object.
func (g *graph) object(path, namespace, name string) object {
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

// names returns the path, namespace and name of an object.
func (g *graph) names(o object) (path, namespace, name string) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	namespace, name, _ = strings.Cut(o.name, "/")
	return g.mu.paths[o.path], namespace, name
}

// uidOf returns the UID of a text, which may have any content, because clients write it.
func uidOf(text string) (u uid) {
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

// Bytes of an edge after the uid.
const (
	blocks      = 0
	doesntBlock = 1
)

func edge(owner uid, blocking bool, dependent object) string {
	b := make([]byte, 0, len(owner)+5+len(dependent.name))
	b = append(b, owner[:]...)
	if blocking {
		b = append(b, blocks)
	} else {
		b = append(b, doesntBlock)
	}
	b = binary.BigEndian.AppendUint32(b, dependent.path)
	return string(append(b, dependent.name...))
}

func dependentOf(edge string) object {
	const head = len(uid{}) + 1
	return object{binary.BigEndian.Uint32([]byte(edge[head : head+4])), edge[head+4:]}
}

func (g *graph) add(owner uid, blocking bool, dependent object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.edges.Set(edge(owner, blocking, dependent))
}

func (g *graph) remove(owner uid, blocking bool, dependent object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.edges.Delete(edge(owner, blocking, dependent))
}

// dependents returns the dependents of an owner.
func (g *graph) dependents(owner uid) []object {
	g.mu.RLock()
	defer g.mu.RUnlock()
	var found []object
	g.mu.edges.Ascend(string(owner[:]), func(edge string) bool {
		if edge[:len(owner)] != string(owner[:]) {
			return false
		}
		found = append(found, dependentOf(edge))
		return true
	})
	return found
}

// has reports whether something names an owner, and whether some of it blocks the
// deletion.
func (g *graph) has(owner uid) (any, blocking bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	g.mu.edges.Ascend(string(owner[:]), func(edge string) bool {
		if any = edge[:len(owner)] == string(owner[:]); any {
			blocking = edge[len(owner)] == blocks
		}
		return false
	})
	return any, blocking
}

// setDying notes that an owner waits for its dependents, or not any more.
func (g *graph) setDying(owner uid, o object, dying bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if dying {
		g.mu.dying[owner], g.mu.dyingNames[o] = o, owner
		return
	}
	delete(g.mu.dying, owner)
	delete(g.mu.dyingNames, o)
}

// dying returns the owner with a uid, if it waits for its dependents.
func (g *graph) dying(owner uid) (object, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	o, ok := g.mu.dying[owner]
	return o, ok
}

// isDying reports whether an object waits for its dependents.
func (g *graph) isDying(o object) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	_, ok := g.mu.dyingNames[o]
	return ok
}
