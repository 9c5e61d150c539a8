package embedded

import "mainstay.dev/mainstay/internal/storage/kv"

// recentBytes is the maximum size of each of the two generations of recent, in bytes.
const recentBytes = 2 << 20

// entryOverhead is the estimated memory cost of an entry in addition to its bytes.
const entryOverhead = 192

// recent caches the newest version of each recently changed key, whether or not it is durable, and of some
// other keys.
// Invariant: it contains each key that changed at a revision greater than floor. A version that was
// read from disk at revision R is therefore still the newest version if recent does not contain the key and R
// is at least floor.
//
// It has two generations. When the young generation is full, the old generation is dropped and the young
// generation becomes the old generation. Store.mu guards it.
type recent struct {
	young, old map[string]version
	// old contains the changes after floor up to youngFloor, and young contains the changes after youngFloor.
	floor, youngFloor kv.Revision
	// bytes is the size of young.
	bytes int
}

func newRecent(at kv.Revision) recent {
	return recent{
		young: make(map[string]version),
		old:   make(map[string]version),
		floor: at, youngFloor: at,
	}
}

func (r *recent) get(key string) (version, bool) {
	if v, ok := r.young[key]; ok {
		return v, true
	}
	v, ok := r.old[key]
	return v, ok
}

// put adds the newest version of a key.
func (r *recent) put(key string, v version) {
	r.bytes += sizeInRecent(key, v)
	if was, ok := r.young[key]; ok {
		r.bytes -= sizeInRecent(key, was)
	}
	r.young[key] = v
}

func sizeInRecent(key string, v version) int {
	n := entryOverhead + len(key)
	if v.entry != nil {
		n += len(v.entry.Value)
	}
	return n
}

// forget drops the old generation if the young generation is full. It retains versions later than published
// regardless of their size, because they are not readable elsewhere.
func (r *recent) forget(assigned, published kv.Revision) {
	if r.bytes >= recentBytes {
		r.rotate(assigned, published)
	}
}

// rotate drops the old generation, if all of it is published.
func (r *recent) rotate(assigned, published kv.Revision) {
	if r.youngFloor > published {
		return
	}
	clear(r.old)
	if r.bytes < recentBytes {
		r.old = make(map[string]version) // clear would retain the memory of a large map
	}
	r.young, r.old = r.old, r.young
	r.floor, r.youngFloor = r.youngFloor, assigned
	r.bytes = 0
}
