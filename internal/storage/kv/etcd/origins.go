package etcd

import (
	"hash/maphash"
	"sync"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// maxOrigins is the maximum number of changes whose origin is retained.
const maxOrigins = 4096

// origins contains the origins of the newest changes that this process has committed, because etcd does not store
// them. It is safe for concurrent use.
type origins struct {
	seed maphash.Seed
	mu   struct {
		sync.Mutex
		changes map[changeID][]byte
		// order contains the keys of changes in a ring, whose oldest element is at next. It may contain
		// removed keys.
		order []changeID
		next  int
	}
}

// changeID identifies a change. Only one transaction can replace a revision of a key. If another process replaces
// it with the same value, or deletes it, while this process also tries to do so, the change may get the wrong
// origin.
type changeID struct {
	key      string
	previous kv.Revision // replaced revision; 0 if the key did not exist
	deleted  bool
	hash     uint64 // hash of the written value
}

func newOrigins() *origins {
	o := &origins{seed: maphash.MakeSeed()}
	o.mu.changes = map[changeID][]byte{}
	return o
}

func (o *origins) id(key string, previous kv.Revision, deleted bool, value []byte) changeID {
	id := changeID{key: key, previous: previous, deleted: deleted}
	if !deleted {
		id.hash = maphash.Bytes(o.seed, value)
	}
	return id
}

// add records the origin of a transaction. It must be called before the transaction, because a watch may receive
// the events before the response arrives. If the transaction is not performed, the caller must call remove.
func (o *origins) add(ops []kv.Op) (remove func()) {
	var origin []byte
	for i := range ops {
		if origin = ops[i].Origin; len(origin) > 0 {
			break
		}
	}
	if len(origin) == 0 {
		return func() {}
	}
	var added []changeID
	for i := range ops {
		if op := &ops[i]; op.Kind != kv.OpCheck && op.Expect != kv.AnyRevision {
			added = append(added, o.id(op.Key, op.Expect, op.Kind == kv.OpDelete, op.Value))
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range added {
		o.mu.changes[id] = origin
		if len(o.mu.order) < maxOrigins {
			o.mu.order = append(o.mu.order, id)
			continue
		}
		if oldest := o.mu.order[o.mu.next]; oldest != id {
			delete(o.mu.changes, oldest)
		}
		o.mu.order[o.mu.next] = id
		o.mu.next = (o.mu.next + 1) % maxOrigins
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, id := range added {
			delete(o.mu.changes, id)
		}
	}
}

// of returns the origin of an event, or nil if it is unknown.
func (o *origins) of(ev *kv.Event) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.mu.changes) == 0 { // as without a history
		return nil
	}
	previous := kv.Revision(0)
	if ev.Prev != nil {
		previous = ev.Prev.Modified
	}
	return o.mu.changes[o.id(ev.Key, previous, ev.Deleted, ev.Value)]
}
