package custom

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/custom/conversion"
	"mainstay.dev/mainstay/internal/apis/custom/rules"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/webhook"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// DefaultIdle is the default of Config.Idle.
const DefaultIdle = 5 * time.Minute

// Config configures a Source.
type Config struct {
	// Definitions stores the CustomResourceDefinitions. It is read and watched permanently, so it
	// should not have a watch cache. Required.
	Definitions storage.Interface
	// Storage opens the storage of the objects of a version. Required.
	Storage func(storage.Spec) (storage.Interface, error)
	// PathShared reports whether a built-in resource stores objects under a path, too: these are
	// not deleted with a definition. nil means never.
	PathShared func(path string) bool
	// Shared: other servers write to the same store.
	Shared bool
	// Changed is called with the group versions with changed resources. A lock is held during the
	// call: it may read the Source, but must not wait for other calls of it. nil is ignored.
	Changed func([]schema.GroupVersion)
	// Gone is called some time after the removal of a definition with its resource, unless the
	// resource exists again, so that its metrics can be dropped. nil is ignored.
	Gone func(schema.GroupResource)
	// Lifetime is the context of work with results that several requests share, such as compiling a
	// schema, and of interfaces without a context. It is canceled when the control plane closes;
	// nil means never.
	Lifetime context.Context
	// Services resolves the services of conversion webhooks.
	Services egress.Resolver
	// Networks are the ways to conversion webhooks; see webhook.Clients.
	Networks egress.Networks
	// Conversions, Reflectors and Rules are the metrics of these packages; nil disables them.
	Conversions *conversion.Metrics
	Rules       *rules.Metrics
	Reflectors  *reflector.Metrics
	// Idle is how long unused compiled schemas and handlers are retained; 0 means DefaultIdle.
	Idle   time.Duration
	Logger *slog.Logger
}

// Source is the route source of custom resources. It is safe for concurrent use.
type Source struct {
	config Config
	logger *slog.Logger
	// webhooks are the clients of conversion webhooks.
	webhooks    *webhook.Clients
	conversions *conversion.Metrics

	current atomic.Pointer[snapshot]
	loop    *loop

	// mu is held while the snapshot is swapped and Changed is called.
	mu struct {
		sync.Mutex
		versions reflector.VersionTracker // of definitions, by their names
		// gone are the resources of removed definitions and the times of the removal.
		gone map[schema.GroupResource]time.Time
	}
}

// New returns a source without resources. Load reads the stored definitions; Run
// keeps them current.
func New(config Config) (*Source, error) {
	var errs []error
	if config.Definitions == nil {
		errs = append(errs, errors.New("Definitions is required"))
	}
	if config.Storage == nil {
		errs = append(errs, errors.New("Storage is required"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("custom resources: %w", err)
	}
	if config.PathShared == nil {
		config.PathShared = func(string) bool { return false }
	}
	if config.Gone == nil {
		config.Gone = func(schema.GroupResource) {}
	}
	if config.Lifetime == nil {
		config.Lifetime = context.Background()
	}
	if config.Idle == 0 {
		config.Idle = DefaultIdle
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Source{
		config: config, logger: config.Logger, webhooks: &webhook.Clients{Resolver: config.Services, Networks: config.Networks}, conversions: config.Conversions,
	}
	s.current.Store(newSnapshot())
	s.mu.gone = map[schema.GroupResource]time.Time{}
	var err error
	s.loop, err = newLoop(s)
	return s, err
}

// Find returns a resource or subresource, or nil if it does not exist.
func (s *Source) Find(gv schema.GroupVersion, name, subresource string) *rest.Resource {
	e := s.current.Load().find(gv.Group, name)
	if e == nil || !e.isServed() {
		return nil
	}
	v := e.version(gv.Version)
	if v == nil {
		return nil
	}
	return s.resource(e, v, subresource)
}

// Groups returns all groups, sorted by name.
func (s *Source) Groups() []rest.Group {
	var groups []rest.Group
	for name, entries := range s.current.Load().groups() {
		if g, served := restGroup(name, entries); served {
			groups = append(groups, g)
		}
	}
	return groups
}

// Group returns one group, or false if it does not exist.
func (s *Source) Group(name string) (rest.Group, bool) {
	return restGroup(name, slices.Collect(s.current.Load().group(name)))
}

// Serves reports whether discovery has anything in a group version.
func (s *Source) Serves(gv schema.GroupVersion) bool {
	for e := range s.current.Load().group(gv.Group) {
		if e.isDiscovered() && e.version(gv.Version) != nil {
			return true
		}
	}
	return false
}

// Defines reports whether there is a definition of a resource.
func (s *Source) Defines(resource schema.GroupResource) bool {
	return s.current.Load().find(resource.Group, resource.Resource) != nil
}

// Generation returns a number that grows with every change of the resources.
func (s *Source) Generation() uint64 { return s.current.Load().generation }

// Observe applies a definition that was just written, so that it is in effect before
// its writer has the response: if its names are free, its resources are found from then
// on. Revisions older than the known one are ignored.
func (s *Source) Observe(record *codec.Record) error {
	crd, err := headOf(record)
	if err != nil {
		return err
	}
	s.update(newEntry(crd, record.Revision()), false)
	return nil
}

// currentEntry returns the entry of a definition if it is of the record's revision,
// nil otherwise.
func (s *Source) currentEntry(record *codec.Record) *entry {
	if e := s.current.Load().named(record.Name().Name); e != nil && e.revision == record.Revision() {
		return e
	}
	return nil
}

// markFollowed records that the watch has delivered the revision of an entry that is
// in effect already.
func (s *Source) markFollowed(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.versions.Reflected(e.name, e.revision)
}

// markReplaced records that a list of all definitions at a revision was applied.
func (s *Source) markReplaced(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.versions.Replaced(revision)
}

// update applies an entry, unless a newer revision is known. watched reports that it comes from the
// list or the watch, not from a writer.
func (s *Source) update(e *entry, watched bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isNewer := s.mu.versions.Written
	if watched {
		isNewer = s.mu.versions.Reflected
	}
	now := s.current.Load()
	old := now.find(e.group, e.requested.plural)
	if !isNewer(e.name, e.revision) || old != nil && old.revision >= e.revision {
		return
	}
	if old != nil && (old.sameGeneration(e) || old.isTerminatedBy(e)) {
		e.state = old.state
		if d := old.decided; d != nil && d.namesAccepted && !e.established && !e.terminating {
			e.decided = d // still being written
		}
		if e.established || e.terminating {
			e.state.markReady()
		}
	} else {
		e.state = newGenerationState(s.config.Lifetime, e.established || e.terminating)
		if old != nil {
			old.state.retire()
		}
	}
	if e.barrier = new(createBarrier); old != nil && old.uid == e.uid {
		e.barrier = old.barrier
	}
	if e.terminating {
		e.barrier.close()
	}
	if !watched {
		now.promise(e)
	}
	s.swapLocked(now.with(e.group, e.requested.plural, e), old, e)
}

// remove removes an entry that the watch reports as deleted.
func (s *Source) remove(name string, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.current.Load()
	old := now.named(name)
	if !s.mu.versions.Reflected(name, revision) || old == nil {
		return
	}
	old.state.retire()
	s.mu.gone[schema.GroupResource{Group: old.group, Resource: old.requested.plural}] = time.Now()
	s.swapLocked(now.with(old.group, old.requested.plural, nil), old, nil)
}

// takeGone returns the resources removed before a time at which all their requests had ended. It
// returns each resource once.
func (s *Source) takeGone(before time.Time) []schema.GroupResource {
	s.mu.Lock()
	defer s.mu.Unlock()
	var taken []schema.GroupResource
	for resource, since := range s.mu.gone {
		if since.After(before) {
			continue
		}
		delete(s.mu.gone, resource)
		if !s.Defines(resource) {
			taken = append(taken, resource)
		}
	}
	return taken
}

// setHidden sets whether a definition is hidden, which disables it regardless of its conditions. A
// definition is hidden before it is removed, so that its resources are not served to a client that
// has observed the deletion.
func (s *Source) setHidden(name string, uid types.UID, hidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.current.Load()
	e := now.named(name)
	if e == nil || e.uid != uid {
		return
	}
	next := now.with(e.group, e.requested.plural, e)
	if !hidden {
		e.barrier.hidden.Store(false)
		s.swapLocked(next, nil, e)
		return
	}
	was := *e
	was.barrier = nil
	e.barrier.hidden.Store(true)
	s.swapLocked(next, &was, nil)
}

func (s *Source) swapLocked(next *snapshot, old, e *entry) {
	if old != nil && e != nil && discoveredAlike(old, e) {
		next.generation-- // discovery is not affected
		s.current.Store(next)
		return
	}
	s.current.Store(next)
	if s.config.Changed == nil {
		return
	}
	changed := append(old.groupVersions(), e.groupVersions()...)
	slices.SortFunc(changed, func(a, b schema.GroupVersion) int { return compareGroupVersions(a, b) })
	if changed = slices.Compact(changed); len(changed) > 0 {
		s.config.Changed(changed)
	}
}

func compareGroupVersions(a, b schema.GroupVersion) int {
	switch {
	case a == b:
		return 0
	case a.Group < b.Group || a.Group == b.Group && a.Version < b.Version:
		return -1
	}
	return 1
}

// discoveredAlike reports whether discovery is the same for two entries.
func discoveredAlike(a, b *entry) bool {
	return a.sameGeneration(b) && a.terminating == b.terminating && a.isDiscovered() == b.isDiscovered() && a.accepted.equal(b.accepted)
}

// stored returns a definition as it is stored.
func (s *Source) stored(ctx context.Context, name string) (*codec.Record, error) {
	record, err := s.config.Definitions.Get(ctx, types.NamespacedName{Name: name}, storage.ReadOptions{})
	if err != nil {
		return nil, fmt.Errorf("read definition %s: %w", name, err)
	}
	return record, nil
}

// read returns a definition without the members of a name; see without.
func (s *Source) read(ctx context.Context, name, less string) (*apiextensionsv1.CustomResourceDefinition, error) {
	record, err := s.stored(ctx, name)
	if err != nil {
		return nil, err
	}
	return without(less, record)
}
