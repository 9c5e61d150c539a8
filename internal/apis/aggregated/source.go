package aggregated

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// DefaultResync is the period of availability checks without an event.
const DefaultResync = 30 * time.Second

// Config configures a Source.
type Config struct {
	// APIServices stores the registrations. It is listed and watched for the
	// lifetime of the Source, so a watch cache of it would be a second copy.
	// Required.
	APIServices storage.Interface
	// Client writes APIServices. Its writes must be observed (Source.Observe). Required.
	Client *loopback.Client[*apiregistrationv1.APIService]
	// Own are the built-in group versions; Served reports whether this server
	// serves another one (of custom resources) now. Required.
	Own    []schema.GroupVersion
	Served func(schema.GroupVersion) bool
	// Cluster returns services and their endpoints, Resolver their addresses.
	// Required.
	Cluster  egress.Cluster
	Resolver egress.Resolver
	// Endpoints are services, endpoints and endpointslices, which are watched so
	// that a change triggers an availability check. Without one of them its
	// changes are seen by the next resync.
	Endpoints map[schema.GroupResource]reflector.Collection
	// Certificate returns the client certificate for aggregated servers (the front proxy's); nil
	// means no certificate.
	Certificate func() (*tls.Certificate, error)
	// Dial connects to aggregated servers; nil does directly.
	Dial egress.Dial
	// PassRedirects passes redirects of aggregated servers to the client.
	PassRedirects bool
	// Proxy passes requests on; nil makes one.
	Proxy *proxy.Proxy
	// Stopping ends requests for OpenAPI documents when it is done; nil never does.
	Stopping context.Context
	// Documents receives the OpenAPI documents of aggregated servers; nil: they
	// are not fetched.
	Documents *openapi.Documents
	// Resync is the period of availability checks; 0 means DefaultResync.
	Resync time.Duration
	Logger *slog.Logger
	// Metrics and Reflectors may be nil.
	Metrics    *Metrics
	Reflectors *reflector.Metrics
}

// Source is the set of registered APIServices and the proxies to the servers
// behind them. It is safe for concurrent use.
type Source struct {
	config  Config
	logger  *slog.Logger
	own     map[schema.GroupVersion]bool
	metrics *Metrics

	current   atomic.Pointer[snapshot]
	reflector *reflector.Reflector // of the stored APIServices
	// dirty are the APIServices to autoregister. wakeChecks contains one token while the checks
	// have not processed the current registrations.
	dirty      *dirtySet
	wakeChecks chan struct{}
	proxy      *proxy.Proxy

	mu struct {
		sync.Mutex                          // held while the snapshot is swapped
		versions   reflector.VersionTracker // of APIServices, by their names
	}
}

// snapshot is the set of all registrations. It is immutable.
type snapshot struct {
	generation uint64
	remotes    map[schema.GroupVersion]*registration
	// priorities are those of this server's group versions that differ from
	// defaultPriority.
	priorities map[schema.GroupVersion]Priority
}

// New returns a source without registrations. Load reads the stored ones; Run
// keeps them current.
func New(config Config) (*Source, error) {
	var errs []error
	for name, missing := range map[string]bool{
		"APIServices": config.APIServices == nil, "Client": config.Client == nil, "Served": config.Served == nil,
		"Cluster": config.Cluster == nil, "Resolver": config.Resolver == nil,
	} {
		if missing {
			errs = append(errs, errors.New(name+" is required"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("aggregation: %w", err)
	}
	if config.Resync == 0 {
		config.Resync = DefaultResync
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Stopping == nil {
		config.Stopping = context.Background()
	}
	if config.Proxy == nil {
		config.Proxy = &proxy.Proxy{Stopping: config.Stopping, Logger: config.Logger}
	}
	s := &Source{
		config: config, logger: config.Logger, own: map[schema.GroupVersion]bool{}, metrics: config.Metrics, proxy: config.Proxy,
		dirty: newDirtySet(), wakeChecks: make(chan struct{}, 1),
	}
	for _, gv := range config.Own {
		s.own[gv] = true
		if gv.Group != apiregistrationv1.GroupName {
			s.dirty.add(nameOf(gv))
		}
	}
	s.current.Store(&snapshot{})
	var err error
	if s.reflector, err = reflector.New(reflector.Config{
		Name: "APIServices", Collection: config.APIServices, Replace: s.replace, Apply: s.apply, Logger: s.logger, Metrics: config.Reflectors,
	}); err != nil {
		return nil, err
	}
	return s, nil
}

// Handler returns the proxy for a group version that is registered for another
// server, nil for all others.
func (s *Source) Handler(gv schema.GroupVersion) http.Handler {
	remotes := s.current.Load().remotes
	if len(remotes) == 0 {
		return nil
	}
	if r := remotes[gv]; r != nil {
		return r
	}
	return nil
}

// Remotes returns the discovery of the group versions that other servers serve.
// The caller owns the map, but must not change its values.
func (s *Source) Remotes() map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery {
	remotes := s.current.Load().remotes
	shown := make(map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery, len(remotes))
	for gv, r := range remotes {
		shown[gv] = r.resources
	}
	return shown
}

// Priority returns the group and version priority of a group version, which
// order discovery.
func (s *Source) Priority(gv schema.GroupVersion) (group, version int32) {
	now := s.current.Load()
	if r := now.remotes[gv]; r != nil {
		return r.priority.Group, r.priority.Version
	}
	p, found := now.priorities[gv]
	if !found {
		p = s.defaultPriority(gv)
	}
	return p.Group, p.Version
}

// defaultPriority returns the priority that one of this server's group versions
// is registered with.
func (s *Source) defaultPriority(gv schema.GroupVersion) Priority {
	if s.own[gv] {
		return builtInPriority(gv)
	}
	return customPriority
}

// Generation returns a number that grows with every change of what Remotes and
// Priority return.
func (s *Source) Generation() uint64 { return s.current.Load().generation }

// LocalChanged marks group versions for autoregistration that this server began
// or ceased to serve. It does not block.
func (s *Source) LocalChanged(versions []schema.GroupVersion) {
	for _, gv := range versions {
		s.dirty.add(nameOf(gv))
	}
}

// Observe applies an APIService that was just written, so that it is in effect
// before its writer has the response. Revisions older than the known one are
// ignored.
func (s *Source) Observe(record *codec.Record) error { return s.update(record, false) }

// ObserveDeleted is Observe for an APIService that was deleted at a revision.
func (s *Source) ObserveDeleted(name string, revision int64) { s.remove(name, revision, false) }

func serviceOf(record *codec.Record) (*apiregistrationv1.APIService, error) {
	service, err := codec.SharedAs[*apiregistrationv1.APIService](record)
	if err != nil {
		return nil, fmt.Errorf("read APIService %s: %w", record.Name().Name, err)
	}
	return service, nil
}

// update applies an APIService, unless a newer revision is known. watched reports that it comes
// from the list or the watch, not from a writer.
func (s *Source) update(record *codec.Record, watched bool) error {
	service, err := serviceOf(record)
	if err != nil {
		return err
	}
	gv := groupVersionOf(service.Name)
	if gv.Group == apiregistrationv1.GroupName {
		return nil // never proxied: the registration could not be deleted again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isNewerLocked(service.Name, record.Revision(), watched) {
		return nil
	}
	now := s.current.Load()
	old := now.remotes[gv]
	if old != nil && old.revision >= record.Revision() {
		return nil
	}
	if service.Spec.Service == nil || s.own[gv] { // a built-in group version is never proxied
		s.updateLocalLocked(now, gv, service)
		return nil
	}
	r := s.newRegistration(now, old, gv, service, record.Revision())
	s.swapLocked(now.with(gv, r), old == nil || !old.isShownAs(r))
	return nil
}

// updateLocalLocked applies an APIService without a service.
func (s *Source) updateLocalLocked(now *snapshot, gv schema.GroupVersion, service *apiregistrationv1.APIService) {
	if !s.isUpToDate(service, gv, s.wantedLabel(gv), false) {
		s.dirty.add(service.Name)
	}
	priority := Priority{service.Spec.GroupPriorityMinimum, service.Spec.VersionPriority}
	known, unusual := now.priorities[gv]
	if !unusual {
		known = s.defaultPriority(gv)
	}
	if known == priority && now.remotes[gv] == nil {
		return
	}
	next := now.with(gv, nil)
	next.priorities = maps.Clone(now.priorities)
	if priority == s.defaultPriority(gv) {
		delete(next.priorities, gv)
	} else if next.priorities == nil {
		next.priorities = map[schema.GroupVersion]Priority{gv: priority}
	} else {
		next.priorities[gv] = priority
	}
	s.swapLocked(next, true)
}

func (s *Source) isNewerLocked(name string, revision int64, watched bool) bool {
	if watched {
		return s.mu.versions.Reflected(name, revision)
	}
	return s.mu.versions.Written(name, revision)
}

// remove removes an APIService, unless a newer revision is known.
func (s *Source) remove(name string, revision int64, watched bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	newer := s.isNewerLocked(name, revision, watched)
	gv := groupVersionOf(name)
	if s.own[gv] || s.config.Served(gv) {
		s.dirty.add(name)
	}
	now := s.current.Load()
	old := now.remotes[gv]
	_, unusual := now.priorities[gv]
	if !newer || old == nil && !unusual || old != nil && old.revision > revision {
		return
	}
	next := now.with(gv, nil)
	next.priorities = maps.Clone(now.priorities)
	delete(next.priorities, gv)
	s.swapLocked(next, true)
}

// newRegistration returns the registration of an APIService. It shares the server
// of other registrations with the same address, and keeps the discovery of old.
func (s *Source) newRegistration(now *snapshot, old *registration, gv schema.GroupVersion, service *apiregistrationv1.APIService, revision int64) *registration {
	r := &registration{
		gv: gv, name: nameOf(gv), uid: service.UID, revision: revision, available: isAvailable(service),
		priority:  Priority{service.Spec.GroupPriorityMinimum, service.Spec.VersionPriority},
		resources: unknownResources(gv),
	}
	at := addressOf(&service.Spec)
	if old != nil && old.server.address == at {
		r.server, r.resources = old.server, old.resources
		return r
	}
	for _, other := range now.remotes {
		if other.server.address == at {
			r.server = other.server
			return r
		}
	}
	r.server = s.newServer(at)
	return r
}

// isShownAs reports whether discovery shows two registrations alike, so that
// neither its generation nor the checks need to know of the change.
func (r *registration) isShownAs(other *registration) bool {
	return r.server == other.server && r.priority == other.priority && r.resources == other.resources && r.available == other.available
}

// with returns a snapshot with the registration of a group version replaced, or
// removed if r is nil.
func (n *snapshot) with(gv schema.GroupVersion, r *registration) *snapshot {
	next := &snapshot{generation: n.generation, remotes: maps.Clone(n.remotes), priorities: n.priorities}
	switch {
	case r == nil:
		delete(next.remotes, gv)
	case next.remotes == nil:
		next.remotes = map[schema.GroupVersion]*registration{gv: r}
	default:
		next.remotes[gv] = r
	}
	return next
}

// swapLocked makes next the current snapshot, and closes servers without a registration. changed
// reports that discovery differs.
func (s *Source) swapLocked(next *snapshot, changed bool) {
	was := s.current.Load()
	if changed {
		next.generation++
	}
	s.current.Store(next)
	used := map[*server]bool{}
	for _, r := range next.remotes {
		used[r.server] = true
	}
	for gv, r := range was.remotes {
		if !used[r.server] {
			r.server.close()
		}
		if next.remotes[gv] == nil && s.config.Documents != nil {
			s.config.Documents.RemoveRemote(gv)
		}
	}
	if changed {
		s.triggerChecks()
	}
}

// triggerChecks makes the checks compare registrations. It does not block.
func (s *Source) triggerChecks() {
	select {
	case s.wakeChecks <- struct{}{}:
	default: // one is pending
	}
}

// setResources sets the discovery of a group version, unless another server is
// registered for it by now.
func (s *Source) setResources(r *registration, resources *apidiscovery.APIVersionDiscovery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.current.Load()
	current := now.remotes[r.gv]
	if current == nil || current.server != r.server || sameResources(current.resources, resources) {
		return
	}
	updated := *current
	updated.resources = resources
	next := now.with(r.gv, &updated)
	next.generation++
	s.current.Store(next)
}
