package custom

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
)

// phase is the state of a definition on this server. The package comment has a diagram of the transitions. All
// transitions are in this file. Entries are immutable, so a transition replaces the entry in the snapshot,
// while Source.mu is held.
type phase uint8

const (
	// pending means that the names have not been checked yet, that a name belongs to another definition, or
	// that the CA bundle of the conversion webhook is invalid. The resource is not served.
	pending phase = iota
	// accepted means that all names belong to the definition, but the Established condition is not stored yet.
	// Requests find the resource, and wait until the condition is stored.
	accepted
	// established means that the Established condition is stored. The resource is served and in discovery.
	established
	// terminating means that the definition has a deletion timestamp. Clients cannot create objects. The
	// resource is served as before, so that clients can observe the deletion of objects and remove finalizers.
	terminating
	// removing means that all objects are deleted and the write that deletes the definition is in progress. The
	// resource is not served, so that no client finds it after it has observed the deletion.
	removing
)

// String returns the name of a phase.
func (p phase) String() string {
	return [...]string{"pending", "accepted", "established", "terminating", "removing"}[p]
}

// decision is a decision on the names of a definition. An entry has a decision until the decision is stored in
// the status.
type decision struct {
	// names are the names that belong to the definition. All requested names are among them if
	// accepted is set.
	names    names
	accepted bool
	// writing is set if the controller has started to write the decision. A decision with writing unset is a
	// reservation.
	writing bool
}

// phase returns the phase of an entry.
func (e *entry) phase() phase {
	switch {
	case e.removing:
		return removing
	case e.stored.terminating:
		return terminating
	case e.stored.established:
		return established
	}
	namesAccepted := e.stored.namesAccepted // stored by another server, if this server has made no decision
	if e.decision != nil {
		namesAccepted = e.decision.accepted
	}
	if namesAccepted && !e.unsafe {
		return accepted
	}
	return pending
}

// isServed reports whether requests find the resource.
func (e *entry) isServed() bool {
	switch e.phase() {
	case accepted, established:
		return true
	case terminating:
		return e.stored.established || e.stored.namesAccepted && !e.unsafe
	}
	return false
}

// isDiscovered reports whether discovery and OpenAPI contain the resource. They contain it only after the
// Established condition is stored. A client that finds the resource there can thus update the definition
// without a conflict with the server's status write.
func (e *entry) isDiscovered() bool { return e.stored.established && !e.removing }

// observe applies a stored revision of a definition, unless the snapshot has a newer one. watched is true if
// the revision comes from a list or a watch event, and false if this server wrote it. Every phase transition
// that another server or a client causes is an observed revision.
func (s *Source) observe(next *entry, watched bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isNewer := s.mu.versions.Written
	if watched {
		isNewer = s.mu.versions.Reflected
	}
	now := s.current.Load()
	old := now.find(next.group, next.requested.plural)
	if !isNewer(next.name, next.revision) || old != nil && old.revision >= next.revision {
		return
	}
	next.inherit(old)
	if next.derived == nil {
		next.derived = newGenerationState(s.config.Lifetime, next.stored.established || next.stored.terminating)
	}
	if !watched {
		next.reserve(now)
	}
	s.transitionLocked(old, next)
}

// inherit copies the state of the previous entry that stays valid at the new revision. creates and removing
// stay valid for the same definition. derived and an unwritten decision stay valid until the spec changes. A
// change of the list kind also ends derived. previous may be nil, or the entry of an earlier definition with
// this name.
func (e *entry) inherit(previous *entry) {
	e.creates = new(createGate)
	if previous == nil || previous.uid != e.uid {
		return
	}
	e.creates, e.removing = previous.creates, previous.removing
	if previous.generation != e.generation && !previous.isTerminatedBy(e) {
		return
	}
	if previous.listKind() == e.listKind() { // as in kube-apiserver, a newly accepted list kind ends watches
		e.derived = previous.derived
	}
	if d := previous.decision; d != nil && d.accepted && !e.stored.established && !e.stored.terminating {
		e.decision = d // its write has not been observed yet
	}
}

// reserve is called for the entry of a definition that this server has just written. If all names of the
// definition are free, reserve changes the phase from pending to accepted, so that the client that wrote the
// definition finds the resource in its next request. The controller writes the decision later, and decides
// again if a name was not free.
func (e *entry) reserve(now *snapshot) {
	if e.stored.established || e.stored.terminating || e.unsafe || e.decision != nil {
		return
	}
	if assigned, conflict := now.namesOfOthers(e.group, e.name).assign(e.requested, e.accepted); conflict == nil {
		e.decision = &decision{names: assigned, accepted: true}
	}
}

// decide applies the decision of the controller before it is written, so that no other definition can use the
// names in the meantime, and so that every client that reads the Established condition finds the resource. crd
// has the conditions to write. The decision is dropped if it is for an earlier generation or if the definition
// is terminating. decide reports whether it released names of the definition.
func (s *Source) decide(crd *apiextensionsv1.CustomResourceDefinition) (released bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.current.Load().find(crd.Spec.Group, crd.Spec.Names.Plural)
	if old == nil || old.uid != crd.UID || old.generation != crd.Generation || old.stored.terminating {
		return false
	}
	next := *old
	next.decision = &decision{
		names:    namesOf(&crd.Status.AcceptedNames).clone(),
		accepted: definition.IsTrue(crd, apiextensionsv1.NamesAccepted),
		writing:  true,
	}
	s.transitionLocked(old, &next)
	return old.reservedNames().kind != "" && !next.reservedNames().equal(old.reservedNames())
}

// setRemoving changes the phase of a definition from terminating to removing, or back if removing is false. The
// finalizer enters the phase removing before the write that deletes the definition, and leaves it if the write
// fails. setRemoving has no effect if the snapshot has another definition of this name.
func (s *Source) setRemoving(name string, uid types.UID, removing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.current.Load().named(name)
	if old == nil || old.uid != uid {
		return
	}
	next := *old
	next.removing = removing
	s.transitionLocked(old, &next)
}

// remove drops the entry of a definition that a list or a watch event reports as deleted.
func (s *Source) remove(name string, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.current.Load().named(name)
	if !s.mu.versions.Reflected(name, revision) || old == nil {
		return
	}
	s.mu.removed[old.resource()] = time.Now()
	s.transitionLocked(old, nil)
}

// transitionLocked replaces an entry with the next one, and applies the effects of its phase. old or next may
// be nil. The snapshot and discovery change before waiting requests continue, so that these requests observe
// the new phase.
func (s *Source) transitionLocked(old, next *entry) {
	s.publishLocked(old, next)
	if old != nil && (next == nil || next.derived != old.derived) {
		old.derived.retire()
	}
	if next == nil {
		return
	}
	switch next.phase() {
	case established:
		next.derived.release()
	case terminating, removing:
		next.creates.close()
		next.derived.release()
	case pending:
		if old != nil && old.phase() == accepted {
			next.derived.release() // waiting requests then fail
		}
	}
}

// publishLocked stores the snapshot with the next entry, and reports the group versions whose discovery has
// changed.
func (s *Source) publishLocked(old, next *entry) {
	var snapshot *snapshot
	if next != nil {
		snapshot = s.current.Load().with(next.group, next.requested.plural, next)
	} else {
		snapshot = s.current.Load().with(old.group, old.requested.plural, nil)
	}
	if old != nil && next != nil && old.isDiscoveredLike(next) {
		snapshot.generation--
		s.current.Store(snapshot)
		return
	}
	s.current.Store(snapshot)
	if s.config.Changed == nil {
		return
	}
	changed := append(old.groupVersions(), next.groupVersions()...)
	slices.SortFunc(changed, compareGroupVersions)
	if changed = slices.Compact(changed); len(changed) > 0 {
		s.config.Changed(changed)
	}
}

// isDiscoveredLike reports whether discovery is the same for two entries with the same name.
func (e *entry) isDiscoveredLike(other *entry) bool {
	return e.sameGeneration(other) && e.stored.terminating == other.stored.terminating && e.isDiscovered() == other.isDiscovered() &&
		e.accepted.equal(other.accepted)
}

// takeRemoved returns the resources that were removed before the given time and have not been recreated since.
// It returns each removal once.
func (s *Source) takeRemoved(before time.Time) []schema.GroupResource {
	s.mu.Lock()
	defer s.mu.Unlock()
	var taken []schema.GroupResource
	for resource, at := range s.mu.removed {
		if at.After(before) {
			continue
		}
		delete(s.mu.removed, resource)
		if !s.Defines(resource) {
			taken = append(taken, resource)
		}
	}
	return taken
}
