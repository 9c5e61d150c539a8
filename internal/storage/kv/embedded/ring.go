package embedded

import (
	"slices"
	"sync"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Limits of the ring. Watches that are further behind read from disk.
const (
	ringGroups = 4096
	ringBytes  = 4 << 20
	// notedBytes is the maximum size of the groups with notes, in bytes. Notes are decoded objects,
	// which are much larger than the values and are useful only to watches that are not behind.
	notedBytes = 512 << 10
	eventBytes = 256 // overhead of an event in addition to key and value
)

// ring contains the last published groups. All watches share it.
type ring struct {
	mu struct {
		sync.Mutex
		// groups is a circular buffer with count groups, starting at head. It grows up to ringGroups.
		groups      []ringGroup
		head, count int
		bytes       int
		// stripped is the number of groups without notes, which are the oldest groups; noted is the size of
		// the other groups, in bytes.
		stripped, noted int
		// last is the newest revision published to the ring.
		last kv.Revision
		// progressRequested is the revision that each watch must report as progress, even if it has no
		// events. It is greater than last while the group of this revision is not in the ring yet.
		progressRequested kv.Revision
		// version is the number of changes of the ring; waiters are the waiting watches.
		version uint64
		waiters []*waiter
	}
}

// waiter is a watch that waits for an event in its range. Most watches of a server are on resources that
// rarely change, so a commit wakes only the affected watches.
type waiter struct {
	start, end string
	// anyEvent is set if any event wakes the watch, because it still has to read older events.
	anyEvent bool
	// idleUntil is the newest revision up to which the range had no events while the watch waited. Only the
	// ring uses it until the ring has sent to wake. Sending to wake never blocks.
	idleUntil kv.Revision
	wake      chan struct{}
}

func (s *waiter) contains(key string) bool {
	return key >= s.start && (s.end == "" || key < s.end)
}

func (s *waiter) matches(events []kv.Event) bool {
	return s.anyEvent || slices.ContainsFunc(events, func(ev kv.Event) bool { return s.contains(ev.Key) })
}

// ringGroup contains the events of a group. It is immutable.
type ringGroup struct {
	first, last kv.Revision
	events      []kv.Event
	bytes       int
}

// reset empties the ring. at is the newest revision.
func (r *ring) reset(at kv.Revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.mu.groups)
	r.mu.head, r.mu.count, r.mu.bytes = 0, 0, 0
	r.mu.stripped, r.mu.noted = 0, 0
	r.mu.last = at
	r.wakeAllLocked()
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
	reports := r.mu.progressRequested > r.mu.last // watches without events in the group must also report progress
	r.mu.last = g.last
	if reports {
		r.wakeAllLocked()
		return
	}
	r.wakeLocked(g)
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

// forget removes the groups up to a revision.
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

// stripLocked removes the notes from the oldest group with notes. It copies the events, because
// watches may be reading them.
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

// atLocked returns the i-th group, starting with the oldest group.
func (r *ring) atLocked(i int) *ringGroup {
	return &r.mu.groups[(r.mu.head+i)%len(r.mu.groups)]
}

// wakeLocked wakes the watches with events in a group, and advances the other watches past the group.
func (r *ring) wakeLocked(g *group) {
	r.mu.version++
	r.mu.waiters = slices.DeleteFunc(r.mu.waiters, func(s *waiter) bool {
		if !s.matches(g.events) {
			s.idleUntil = g.last
			return false
		}
		s.wake <- struct{}{}
		return true
	})
}

func (r *ring) wakeAllLocked() {
	r.mu.version++
	for _, s := range r.mu.waiters {
		s.wake <- struct{}{}
	}
	clear(r.mu.waiters)
	r.mu.waiters = r.mu.waiters[:0]
}

// requestProgress requests that each watch report a published revision. A group is published shortly before it is
// appended to the ring.
func (r *ring) requestProgress(published kv.Revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.progressRequested = max(r.mu.last, published)
	r.wakeAllLocked()
}

// addWaiter registers a watch that has processed the groups that since returned together with version. It
// returns false if the ring has changed since then. A registered watch must call removeWaiter unless it has
// received from wake.
func (r *ring) addWaiter(s *waiter, version uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.version != version {
		return false
	}
	s.idleUntil = r.mu.last
	r.mu.waiters = append(r.mu.waiters, s)
	return true
}

// removeWaiter removes a watch that addWaiter registered.
func (r *ring) removeWaiter(s *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.waiters = slices.DeleteFunc(r.mu.waiters, func(other *waiter) bool { return other == s })
}

// ringState is the state of the ring at a version.
type ringState struct {
	last, requested kv.Revision
	version         uint64
}

// since appends the groups with revisions of at least next to dst, up to the capacity of dst. It returns
// false if the ring no longer contains next.
func (r *ring) since(next kv.Revision, dst []ringGroup) (groups []ringGroup, at ringState, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at = ringState{r.mu.last, r.mu.progressRequested, r.mu.version}
	if next > at.last {
		return dst, at, true
	}
	if r.mu.count == 0 || next < r.atLocked(0).first {
		return dst, at, false
	}
	// Find the first group that ends at or after next.
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
	return dst, at, true
}
