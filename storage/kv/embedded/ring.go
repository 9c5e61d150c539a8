package embedded

import (
	"slices"
	"sync"

	"mainstay.dev/mainstay/storage/kv"
)

// Bounds of the ring. What falls out of it is read from disk by those who still
// need it.
const (
	ringGroups = 4096
	ringBytes  = 4 << 20
	// notedBytes is how much of it has notes: these hold decoded objects, many
	// times as large as the values, and are for those who keep up.
	notedBytes = 512 << 10
	eventBytes = 256 // what an event costs beside key and value
)

// ring holds the groups published last, shared by all watches.
type ring struct {
	mu struct {
		sync.Mutex
		// groups is a circle: count groups from head on. It grows up to
		// ringGroups.
		groups      []ringGroup
		head, count int
		bytes       int
		// stripped groups, from the oldest on, have lost their notes; noted is
		// the size of the others.
		stripped, noted int
		// last is the newest revision published to the ring.
		last kv.Revision
		// wake is closed when last grows; waited is set once a watch has it.
		wake   chan struct{}
		waited bool
	}
}

// ringGroup is the events of a group; immutable.
type ringGroup struct {
	first, last kv.Revision
	events      []kv.Event
	bytes       int
}

func (r *ring) init() { r.mu.wake = make(chan struct{}) }

// reset empties the ring, at the newest revision.
func (r *ring) reset(at kv.Revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.mu.groups)
	r.mu.head, r.mu.count, r.mu.bytes = 0, 0, 0
	r.mu.stripped, r.mu.noted = 0, 0
	r.mu.last = at
	r.wakeLocked()
}

func (r *ring) append(g *group) {
	n := 0
	for i := range g.events {
		ev := &g.events[i]
		n += eventBytes + len(ev.Key) + len(ev.Value)
		if ev.Prev != nil {
			n += len(ev.Prev.Value)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.mu.count > 0 && (r.mu.count == ringGroups || r.mu.bytes+n > ringBytes) {
		r.dropLocked()
	}
	if r.mu.count == len(r.mu.groups) {
		r.growLocked()
	}
	*r.atLocked(r.mu.count) = ringGroup{first: g.first, last: g.last, events: g.events, bytes: n}
	r.mu.count++
	r.mu.bytes += n
	r.mu.noted += n
	for r.mu.noted > notedBytes && r.mu.stripped < r.mu.count-1 {
		r.stripLocked()
	}
	r.mu.last = g.last
	r.wakeLocked()
}

// dropLocked removes the oldest group.
func (r *ring) dropLocked() {
	old := &r.mu.groups[r.mu.head]
	r.mu.bytes -= old.bytes
	if r.mu.stripped > 0 {
		r.mu.stripped--
	} else {
		r.mu.noted -= old.bytes
	}
	*old = ringGroup{}
	r.mu.head = (r.mu.head + 1) % len(r.mu.groups)
	r.mu.count--
}

// forget removes what came up to a revision.
func (r *ring) forget(before kv.Revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.mu.count > 0 && r.atLocked(0).last <= before {
		r.dropLocked()
	}
	if r.mu.count == 0 {
		r.mu.groups, r.mu.head = nil, 0
	}
}

// stripLocked takes the notes from the oldest group that has them. Watches may
// be looking at its events, so it is given others.
func (r *ring) stripLocked() {
	g := r.atLocked(r.mu.stripped)
	r.mu.stripped++
	r.mu.noted -= g.bytes
	if !slices.ContainsFunc(g.events, func(ev kv.Event) bool { return ev.Note != nil }) {
		return
	}
	g.events = slices.Clone(g.events)
	for i := range g.events {
		g.events[i].Note = nil
	}
}

func (r *ring) growLocked() {
	bigger := make([]ringGroup, min(max(64, 2*len(r.mu.groups)), ringGroups))
	n := copy(bigger, r.mu.groups[r.mu.head:])
	copy(bigger[n:], r.mu.groups[:r.mu.head])
	r.mu.groups, r.mu.head = bigger, 0
}

// atLocked is the place of the i-th group from the oldest on.
func (r *ring) atLocked(i int) *ringGroup {
	return &r.mu.groups[(r.mu.head+i)%len(r.mu.groups)]
}

func (r *ring) wakeLocked() {
	if r.mu.waited {
		close(r.mu.wake)
		r.mu.wake = make(chan struct{})
		r.mu.waited = false
	}
}

// since appends to dst up to cap(dst) groups that hold revisions from next on.
// last is the newest revision of the ring, and wake is closed when it grows.
// It reports false when the ring no longer goes back to next.
func (r *ring) since(next kv.Revision, dst []ringGroup) (groups []ringGroup, last kv.Revision, wake <-chan struct{}, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.waited = true
	last, wake = r.mu.last, r.mu.wake
	if next > last {
		return dst, last, wake, true
	}
	if r.mu.count == 0 || next < r.atLocked(0).first {
		return dst, last, wake, false
	}
	// The first group that ends at or after next.
	lo, hi := 0, r.mu.count-1
	for lo < hi {
		mid := (lo + hi) / 2
		if r.atLocked(mid).last < next {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for ; lo < r.mu.count && len(dst) < cap(dst); lo++ {
		dst = append(dst, *r.atLocked(lo))
	}
	return dst, last, wake, true
}
