package rbac

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// namespaces returns the namespaces in which bindings allow a request, or nil for all namespaces.
// Rules with resourceNames are ignored.
func (x *index) namespaces(q *preparedRequest) *request.Namespaces {
	everywhere := false
	x.visit(q.User, "", func(_ subject, b *binding) bool {
		everywhere = b.role.allows(q)
		return !everywhere
	})
	if everywhere {
		return nil
	}
	var names []string
	var last *role // consecutive bindings often refer to the same role
	allows := false
	x.eachGrants(q.User, func(_ subject, g *grants) {
		for _, b := range g.namespaced {
			if b.role != last {
				last, allows = b.role, b.role.allows(q)
			}
			if allows {
				names = append(names, b.namespace)
			}
		}
	})
	return request.NewNamespaces(names)
}

// eachGrants calls f with the grants of a user and of each group.
func (x *index) eachGrants(user *request.User, f func(subject, *grants)) {
	if g := x.users[user.Name]; g != nil {
		f(subject{name: user.Name}, g)
	}
	for _, group := range user.Groups {
		if g := x.groups[group]; g != nil {
			f(subject{name: group, group: true}, g)
		}
	}
}

// setRevision sets the revision of the changes of the index that follow.
func (x *index) setRevision(revision int64) {
	if x.sets != nil {
		x.sets.setRevision(revision)
	}
}

// maxIdleSets is the maximum number of unused cached sets.
const maxIdleSets = 256

// namespaceSets caches, for each user and request, the namespaces in which the request is allowed.
// A change of the index marks the affected sets as stale, and the next reader recomputes them.
// Authorizer.mu is held for writing during changes of the index.
type namespaceSets struct {
	mu        sync.Mutex
	all       map[setKey]*namespaceSet
	bySubject map[subject]map[*namespaceSet]struct{}
	// idle are the unused sets, least recently used first.
	idle []*namespaceSet
	// revision is the revision of the current change of the index.
	revision int64
	// newest is the greatest revision that a client may have received before this server knew of
	// the last change of the index.
	newest int64
	// seen is the greatest revision that any client may have received. There is one value for all
	// sets, because a client may list with one set and watch with another.
	seen atomic.Int64
	// evictedChange is the greatest namespaceSet.changed of all evicted sets.
	evictedChange int64
}

// setKey identifies a user and a request.
type setKey struct{ user, groups, verb, group, resource string }

func keyOfSet(a *authorizer.Attributes) setKey {
	var groups []byte
	for _, group := range a.User.Groups {
		groups = strconv.AppendQuote(groups, group) // quoting makes the key unambiguous
	}
	return setKey{a.User.Name, string(groups), a.Verb, a.APIGroup, a.Resource}
}

// namespaceSet contains the namespaces in which one user may perform one request. See
// request.Visibility.
type namespaceSet struct {
	key     setKey
	request preparedRequest
	uses    int // guarded by namespaceSets.mu

	mu sync.Mutex
	// now is the last computed set. If stale is true, it must be recomputed before use.
	now       *request.Namespaces
	stale     bool
	staleChan chan struct{} // closed when the set becomes stale
	// changed is the greatest revision that a client may have received with earlier contents of the set;
	// pending is the next value of changed if the recomputed set differs.
	changed, pending int64
	// markedAt is the revision of the last change that marked the set. multiple is true if changes at several
	// revisions marked the set; between these revisions, a client may have listed other namespaces.
	markedAt int64
	multiple bool
}

// CacheNamespaces enables View, which caches sets of namespaces. It must be called before the
// Authorizer is used.
func (a *Authorizer) CacheNamespaces() {
	a.index.sets = &namespaceSets{all: map[setKey]*namespaceSet{}, bySubject: map[subject]map[*namespaceSet]struct{}{}}
}

// View is the request.Visibility of one request. Close must be called when the request ends. It is
// safe for concurrent use.
type View struct {
	authorizer *Authorizer
	set        *namespaceSet
	alone      bool
}

var _ request.Visibility = (*View)(nil)

// View returns a View of the namespaces in which a user may perform a list or watch of all namespaces. It
// returns nil if the user has no such namespace. CacheNamespaces must have been called. alone means that no
// other authorizer can allow the request. Otherwise, a watch ends when its user loses the permission for all
// namespaces, so that the other authorizers can decide about the next watch.
func (a *Authorizer) View(attributes *authorizer.Attributes, alone bool) *View {
	if attributes.User == nil {
		return nil
	}
	key := keyOfSet(attributes)
	a.mu.RLock()
	defer a.mu.RUnlock()
	sets := a.index.sets
	sets.mu.Lock()
	defer sets.mu.Unlock()
	set := sets.all[key]
	if set == nil {
		q := prepare(&authorizer.Attributes{
			User: &request.User{Name: attributes.User.Name, Groups: attributes.User.Groups}, ResourceRequest: true,
			Verb: attributes.Verb, APIGroup: attributes.APIGroup, Resource: attributes.Resource,
		})
		now := a.index.namespaces(&q)
		if now != nil && len(now.Names()) == 0 {
			return nil
		}
		set = sets.add(key, q, now)
	}
	sets.use(set)
	return &View{a, set, alone}
}

// Close releases the view, which must not be used afterwards. It must be called exactly once.
func (v *View) Close() { v.authorizer.index.sets.release(v.set) }

func (s *namespaceSets) add(key setKey, q preparedRequest, now *request.Namespaces) *namespaceSet {
	set := &namespaceSet{key: key, request: q, now: now, staleChan: make(chan struct{}), changed: max(s.newest, s.evictedChange)}
	s.all[key] = set
	for subj := range set.subjects {
		if s.bySubject[subj] == nil {
			s.bySubject[subj] = map[*namespaceSet]struct{}{}
		}
		s.bySubject[subj][set] = struct{}{}
	}
	return set
}

// subjects yields the subjects whose bindings determine the set.
func (n *namespaceSet) subjects(yield func(subject) bool) {
	user := n.request.User
	if !yield(subject{name: user.Name}) {
		return
	}
	for _, group := range user.Groups {
		if !yield(subject{name: group, group: true}) {
			return
		}
	}
}

func (s *namespaceSets) use(set *namespaceSet) {
	set.uses++
	if i := slices.Index(s.idle, set); i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
}

func (s *namespaceSets) release(set *namespaceSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set.uses--; set.uses > 0 {
		return
	}
	s.idle = append(s.idle, set)
	if len(s.idle) > maxIdleSets {
		s.evict(s.idle[0])
		s.idle = slices.Delete(s.idle, 0, 1)
	}
}

func (s *namespaceSets) evict(set *namespaceSet) {
	delete(s.all, set.key)
	for subj := range set.subjects {
		delete(s.bySubject[subj], set)
		if len(s.bySubject[subj]) == 0 {
			delete(s.bySubject, subj)
		}
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	s.evictedChange = max(s.evictedChange, set.changed, set.pending)
}

func (s *namespaceSets) setRevision(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision, s.newest = revision, max(s.newest, revision-1, s.seen.Load())
}

// roleChanged marks the sets of all subjects of the role's bindings as stale. A nil receiver does nothing.
func (s *namespaceSets) roleChanged(r *role) {
	if s == nil {
		return
	}
	for _, b := range r.bindings {
		s.bindingChanged(b)
	}
}

// bindingChanged marks the sets of a binding's subjects as stale. A nil receiver does nothing.
func (s *namespaceSets) bindingChanged(b *binding) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, subj := range b.subjects {
		for set := range s.bySubject[subject{name: subj.name, group: subj.group}] {
			set.markStale(s.revision, &s.seen)
		}
	}
}

// markStale records that a change at revision may affect the set. Clients may have received
// revisions up to seen without the change. From other servers, they may have received all revisions
// before the change. seen is read under the lock, because Advance increases it under the lock.
func (n *namespaceSet) markStale(revision int64, seen *atomic.Int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.multiple = n.multiple || n.stale && n.markedAt != revision
	n.markedAt = revision
	n.pending = max(n.pending, revision-1, seen.Load())
	if !n.stale {
		n.stale = true
		close(n.staleChan)
	}
}

// lock recomputes the set if it is stale. It returns the set, whose mutex the caller must unlock.
func (v *View) lock() *namespaceSet {
	n := v.set
	for n.mu.Lock(); n.stale; n.mu.Lock() {
		n.mu.Unlock()
		v.refresh()
	}
	return n
}

// refresh recomputes a stale set.
func (v *View) refresh() {
	v.authorizer.mu.RLock() // prevents concurrent calls of markStale
	defer v.authorizer.mu.RUnlock()
	n := v.set
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.stale {
		return
	}
	if now := v.authorizer.index.namespaces(&n.request); n.multiple || !now.Equal(n.now) {
		n.now, n.changed = now, max(n.changed, n.pending)
	}
	n.stale, n.multiple, n.pending, n.staleChan = false, false, 0, make(chan struct{})
}

// recordSent records a revision that will be sent to a client. The set must be locked.
func (v *View) recordSent(revision int64) {
	seen := &v.authorizer.index.sets.seen
	for was := seen.Load(); was < revision && !seen.CompareAndSwap(was, revision); was = seen.Load() {
	}
}

// Now implements request.Visibility.
func (v *View) Now() *request.Namespaces {
	n := v.lock()
	defer n.mu.Unlock()
	return n.now
}

// IsCurrent implements request.Visibility.
func (v *View) IsCurrent(of *request.Namespaces, revision int64) bool {
	n := v.lock()
	n.mu.Unlock()
	v.authorizer.mu.RLock() // waits for a change that has marked only some of the sets so far
	defer v.authorizer.mu.RUnlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stale || n.now != of {
		return false
	}
	v.recordSent(revision)
	return true
}

// Resume implements request.Visibility.
func (v *View) Resume(revision int64) (*request.Namespaces, <-chan struct{}, bool) {
	n := v.lock()
	defer n.mu.Unlock()
	if revision <= n.changed {
		return nil, nil, false
	}
	v.recordSent(revision)
	return n.now, n.staleChan, true
}

// Advance implements request.Visibility.
func (v *View) Advance(of *request.Namespaces, revision int64) (*request.Namespaces, <-chan struct{}, bool) {
	n := v.lock()
	defer n.mu.Unlock()
	if n.now != of {
		if of == nil && !v.alone {
			return nil, nil, false
		}
		n.changed = max(n.changed, revision-1)
	}
	v.recordSent(revision)
	return n.now, n.staleChan, true
}
