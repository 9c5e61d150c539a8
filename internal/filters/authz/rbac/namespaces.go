package rbac

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// namespaces returns the namespaces, or all, in which bindings allow a request. Rules with
// resourceNames are ignored.
func (x *index) namespaces(q *question) *request.Namespaces {
	everywhere := false
	x.visit(q.User, "", func(_ subject, b *binding) bool {
		everywhere = b.role.allows(q)
		return !everywhere
	})
	if everywhere {
		return nil
	}
	var names []string
	var last *role // many bindings in a row name the same one
	allows := false
	x.grants(q.User, func(_ subject, g *grants) {
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

// grants calls f with the grants of a user and of each group.
func (x *index) grants(user *request.User, f func(subject, *grants)) {
	if g := x.users[user.Name]; g != nil {
		f(subject{name: user.Name}, g)
	}
	for _, group := range user.Groups {
		if g := x.groups[group]; g != nil {
			f(subject{name: group, group: true}, g)
		}
	}
}

// at records the revision of the next change of the index.
func (x *index) at(revision int64) {
	if x.sets != nil {
		x.sets.noteRevision(revision)
	}
}

// maxIdleSets is the maximum number of unused cached sets.
const maxIdleSets = 256

// namespaceSets caches the namespaces that users may list, by request. Changes of the index mark
// affected sets as stale, and the next reader recomputes them. Changes of the index hold
// Authorizer.mu.
type namespaceSets struct {
	mu        sync.Mutex
	all       map[setKey]*namespaceSet
	bySubject map[subject]map[*namespaceSet]struct{}
	// idle are the unused sets, least recently used first.
	idle []*namespaceSet
	// revision is that of the change of the index that is under way.
	revision int64
	// newest is the greatest revision that a client may have been sent before the last
	// change of the index was known.
	newest int64
	// seen is the greatest revision that any client may have received, because a client may list
	// with one set and watch with another.
	seen atomic.Int64
	// forgotten is the greatest namespaceSet.changed of evicted sets.
	forgotten int64
}

// setKey identifies a user and a request.
type setKey struct{ user, groups, verb, group, resource string }

func keyOfSet(a *authorizer.Attributes) setKey {
	var groups []byte
	for _, group := range a.User.Groups {
		groups = strconv.AppendQuote(groups, group) // no name can be taken for two
	}
	return setKey{a.User.Name, string(groups), a.Verb, a.APIGroup, a.Resource}
}

// namespaceSet is one user's answer to one question. See request.Visibility.
type namespaceSet struct {
	key      setKey
	question question
	uses     int // guarded by namespaceSets.mu

	mu sync.Mutex
	// now is the set as of its last reading; stale, it may be another one since.
	now   *request.Namespaces
	stale bool
	wake  chan struct{} // closed once it is stale
	// changed is the greatest revision that a client may have received with an earlier content of
	// the set; pending is its next value if the recomputed set differs.
	changed, pending int64
	// markedAt is the revision that made it stale. twice: there were several, between which a
	// client may have listed with another content.
	markedAt int64
	twice    bool
}

// KeepNamespaces has the Authorizer keep, for lists over all namespaces, in which ones
// users may make them. It must be called before anything else.
func (a *Authorizer) KeepNamespaces() {
	a.index.sets = &namespaceSets{all: map[setKey]*namespaceSet{}, bySubject: map[subject]map[*namespaceSet]struct{}{}}
}

// View is the Visibility of one request, which must close it.
type View struct {
	authorizer *Authorizer
	set        *namespaceSet
	alone      bool
}

var _ request.Visibility = (*View)(nil)

// View returns the namespaces in which a user may perform a list or watch over all namespaces, or
// nil if the user has no such namespace. alone means that no other authorizer can allow the
// request. Otherwise, a watch ends when its user loses the permission for all namespaces, and the
// other authorizers decide about the next watch.
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
		q := ask(&authorizer.Attributes{
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

// Close ends the use of the view.
func (v *View) Close() { v.authorizer.index.sets.release(v.set) }

func (s *namespaceSets) add(key setKey, q question, now *request.Namespaces) *namespaceSet {
	set := &namespaceSet{key: key, question: q, now: now, wake: make(chan struct{}), changed: max(s.newest, s.forgotten)}
	s.all[key] = set
	for who := range set.subjects {
		if s.bySubject[who] == nil {
			s.bySubject[who] = map[*namespaceSet]struct{}{}
		}
		s.bySubject[who][set] = struct{}{}
	}
	return set
}

// subjects iterates over the subjects that select the bindings of the set.
func (n *namespaceSet) subjects(yield func(subject) bool) {
	user := n.question.User
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
		s.forget(s.idle[0])
		s.idle = slices.Delete(s.idle, 0, 1)
	}
}

func (s *namespaceSets) forget(set *namespaceSet) {
	delete(s.all, set.key)
	for who := range set.subjects {
		delete(s.bySubject[who], set)
		if len(s.bySubject[who]) == 0 {
			delete(s.bySubject, who)
		}
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	s.forgotten = max(s.forgotten, set.changed, set.pending)
}

func (s *namespaceSets) noteRevision(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision, s.newest = revision, max(s.newest, revision-1, s.seen.Load())
}

// roleChanged marks the sets of all whom a role is bound to.
func (s *namespaceSets) roleChanged(r *role) {
	if s == nil {
		return
	}
	for _, b := range r.bindings {
		s.bindingChanged(b)
	}
}

// bindingChanged marks the sets of a binding's subjects.
func (s *namespaceSets) bindingChanged(b *binding) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, who := range b.subjects {
		for set := range s.bySubject[subject{name: who.name, group: who.group}] {
			set.mark(s.revision, max(s.revision-1, s.seen.Load()))
		}
	}
}

// mark notes a change that can concern the set. Clients may have been sent revisions up
// to seen without it, by other servers all that came before it.
func (n *namespaceSet) mark(revision, seen int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.twice = n.twice || n.stale && n.markedAt != revision
	n.markedAt = revision
	n.pending = max(n.pending, seen)
	if !n.stale {
		n.stale = true
		close(n.wake)
	}
}

// lock locks the set, up to date.
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
	v.authorizer.mu.RLock() // prevents concurrent marks
	defer v.authorizer.mu.RUnlock()
	n := v.set
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.stale {
		return
	}
	if now := v.authorizer.index.namespaces(&n.question); n.twice || !now.Equal(n.now) {
		n.now, n.changed = now, max(n.changed, n.pending)
	}
	n.stale, n.twice, n.pending, n.wake = false, false, 0, make(chan struct{})
}

// saw notes a revision that a client is about to be sent. The set is locked.
func (v *View) saw(revision int64) {
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
	v.authorizer.mu.RLock() // before a change marks any set, or after it has marked all
	defer v.authorizer.mu.RUnlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stale || n.now != of {
		return false
	}
	v.saw(revision)
	return true
}

// Resume implements request.Visibility.
func (v *View) Resume(revision int64) (*request.Namespaces, <-chan struct{}, bool) {
	n := v.lock()
	defer n.mu.Unlock()
	if revision <= n.changed {
		return nil, nil, false
	}
	v.saw(revision)
	return n.now, n.wake, true
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
	v.saw(revision)
	return n.now, n.wake, true
}
