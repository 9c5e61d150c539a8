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
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// DefaultIdle is the default value of Config.Idle.
const DefaultIdle = 5 * time.Minute

// Config configures a Source.
type Config struct {
	// Definitions stores the CustomResourceDefinitions. The Source watches it permanently, so the storage
	// should not have a watch cache. Its Prepare method may return nil for a definition that cannot change.
	// Required.
	Definitions storage.Interface
	// Storage opens the storage of the objects of a version. Required.
	Storage func(storage.Spec) (storage.Interface, error)
	// PathShared reports whether a built-in resource also stores objects under a path. Such objects are not
	// deleted with a definition. nil means that no paths are shared.
	PathShared func(path string) bool
	// If ReadOnly is set, the Source serves definitions according to their stored conditions, and writes
	// nothing.
	ReadOnly bool
	// Shared is true if other servers write to the same store.
	Shared bool
	// Changed is called with the group versions whose discovery has changed; it may be nil. Because a lock is
	// held during the call, Changed may read the Source, but must not wait for another goroutine that changes
	// the Source.
	Changed func([]schema.GroupVersion)
	// Removed is called with the resource of a deleted definition, at least 30 s after the deletion, unless the
	// resource was recreated by then. It can be used to drop the metrics of the resource. It may be nil.
	Removed func(schema.GroupResource)
	// Lifetime is the context of work whose results several requests share, such as compiling a
	// schema, and of calls through interfaces without a context. nil means context.Background().
	Lifetime context.Context
	// Services resolves the Services of conversion webhooks.
	Services egress.Resolver
	// Networks contains the dialers for conversion webhooks; see webhook.Clients.
	Networks egress.Networks
	// Conversions, Rules and Reflectors are the metrics of packages conversion, rules and reflector; nil
	// disables them.
	Conversions *conversion.Metrics
	Rules       *rules.Metrics
	Reflectors  *reflector.Metrics
	// Schemas shares compiled schemas with other Sources that have the same Rules; nil means that none are
	// shared.
	Schemas *SchemaCache
	// Deletion configures the deletion of objects.
	Deletion registry.Deletion
	// Idle is the retention period of unused handlers and compiled schemas; 0 means DefaultIdle.
	Idle time.Duration
	// Logger logs unreadable definitions and failed writes; nil discards them.
	Logger *slog.Logger
}

// Source is the route source of custom resources. All methods except Load and Run are safe for concurrent use.
// Only Load, Run, Wait and Schemas block.
type Source struct {
	config Config
	logger *slog.Logger
	// webhooks contains the clients of conversion webhooks.
	webhooks    *webhook.Clients
	conversions *conversion.Metrics

	// current is the newest snapshot. It is replaced with mu held.
	current    atomic.Pointer[snapshot]
	controller *controller

	// mu is held during a transition, which includes a call to Config.Changed.
	mu struct {
		sync.Mutex
		versions reflector.VersionTracker // by the name of the definition
		// removed contains the resources of deleted definitions and the times of the removal, until
		// Config.Removed is called.
		removed map[schema.GroupResource]time.Time
	}
}

// New returns a source without resources. Load reads the stored definitions, and the Reflector of the source
// follows their changes. If required fields of config are missing, the error names them.
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
	if config.Removed == nil {
		config.Removed = func(schema.GroupResource) {}
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
	s.mu.removed = map[schema.GroupResource]time.Time{}
	var err error
	s.controller, err = newController(s)
	return s, err
}

// Find returns a resource, or its subresource if subresource is not empty. It returns nil if the resource is
// not served.
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

// Groups returns all groups in discovery, sorted by name. The result is shared and must not be
// modified.
func (s *Source) Groups() []rest.Group {
	var groups []rest.Group
	for name, entries := range s.current.Load().groups() {
		if g, served := restGroup(name, entries); served {
			groups = append(groups, g)
		}
	}
	return groups
}

// Group returns one group, or false if the group is not in discovery. The result is shared and must not be
// modified.
func (s *Source) Group(name string) (rest.Group, bool) {
	return restGroup(name, slices.Collect(s.current.Load().group(name)))
}

// Serves reports whether discovery contains a resource in a group version.
func (s *Source) Serves(gv schema.GroupVersion) bool {
	for e := range s.current.Load().group(gv.Group) {
		if e.isDiscovered() && e.version(gv.Version) != nil {
			return true
		}
	}
	return false
}

// Defines reports whether there is a definition of a resource, in any phase.
func (s *Source) Defines(resource schema.GroupResource) bool {
	return s.current.Load().find(resource.Group, resource.Resource) != nil
}

// Generation returns a number that increases with every change to discovery.
func (s *Source) Generation() uint64 { return s.current.Load().generation }

// Observe applies a definition that this server has written, so that the write has taken effect before the
// client receives the response. If the names of the definition are free, Find then returns its resources.
// Observe ignores the record if a newer revision was applied. It returns an error if the definition cannot be
// decoded.
func (s *Source) Observe(record *codec.Record) error {
	crd, err := decodeWithoutSchemas(record)
	if err != nil {
		return err
	}
	s.observe(newEntry(crd, record.Revision()), false)
	return nil
}

// currentEntry returns the entry of the definition in record, or nil if the revisions of the entry and the
// record differ.
func (s *Source) currentEntry(record *codec.Record) *entry {
	if e := s.current.Load().named(record.Name().Name); e != nil && e.revision == record.Revision() {
		return e
	}
	return nil
}

// markReflected records that the watch has delivered the revision of an entry that a writer applied
// before.
func (s *Source) markReflected(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.versions.Reflected(e.name, e.revision)
}

// markReplaced records that a list of all definitions at a revision was applied in full.
func (s *Source) markReplaced(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.versions.Replaced(revision)
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

// readRecord reads the newest record of a definition from the store. The error wraps
// storage.ErrNotFound if the definition does not exist.
func (s *Source) readRecord(ctx context.Context, name string) (*codec.Record, error) {
	record, err := s.config.Definitions.Get(ctx, types.NamespacedName{Name: name}, storage.ReadOptions{})
	if err != nil {
		return nil, fmt.Errorf("read definition %s: %w", name, err)
	}
	return record, nil
}

// read reads a definition from the store and decodes it with decodeWithout.
func (s *Source) read(ctx context.Context, name, member string) (*apiextensionsv1.CustomResourceDefinition, error) {
	record, err := s.readRecord(ctx, name)
	if err != nil {
		return nil, err
	}
	return decodeWithout(member, record)
}
