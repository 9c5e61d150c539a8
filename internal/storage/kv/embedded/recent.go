package embedded

import "mainstay.dev/mainstay/internal/storage/kv"

// recentBytes is the maximum size of each of the two generations of recent, in bytes.
const recentBytes = 2 << 20

// entryOverhead is the estimated memory cost of an entry in addition to its bytes.
const entryOverhead = 192

// recent remembers the newest version of every key changed lately, durable or
// not. Its promise: a key changed at a revision greater than floor is in it.
// So a version read from disk at revision R is still the newest one if recent
// does not know the key and R is not below floor.
//
// It forgets by halves: when the young generation is full, the old one is
// dropped and the young one becomes the old. The Store's mu guards it.
type recent struct {
	young, old map[string]version
	// floor is the revision after which old began, youngFloor that of young.
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

// put remembers a version just assigned.
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

// forget drops the old generation if the young one is full. It retains versions later than
// published regardless of their size, because they are not readable elsewhere.
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
		r.old = make(map[string]version) // the other one may have been large
	}
	r.young, r.old = r.old, r.young
	r.floor, r.youngFloor = r.youngFloor, assigned
	r.bytes = 0
}
