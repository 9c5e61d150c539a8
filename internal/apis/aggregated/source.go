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

// DefaultResync is the default interval between availability checks if no event triggers a check.
const DefaultResync = 30 * time.Second

// Config configures a Source.
type Config struct {
	// APIServices stores the registrations. The Source keeps a copy of them, so the storage should
	// not have a watch cache. Required.
	APIServices storage.Interface
	// Client writes APIServices. Source.Observe must be called with each record that Client writes. Required.
	Client *loopback.Client[*apiregistrationv1.APIService]
	// Own contains the built-in group versions. Served reports whether this server currently serves
	// a group version of custom resources; it must be safe for concurrent use. Required.
	Own    []schema.GroupVersion
	Served func(schema.GroupVersion) bool
	// Cluster returns Services and their endpoints. Resolver returns the addresses of Services. Required.
	Cluster  egress.Cluster
	Resolver egress.Resolver
	// Endpoints returns the collections of Services, Endpoints and EndpointSlices. It is called when there are
	// aggregated servers. A change to an object in these collections triggers an availability check. Changes in
	// a collection that is not returned are detected by the next periodic check. Endpoints may be nil.
	Endpoints func() map[schema.GroupResource]reflector.Collection
	// Certificate returns the front-proxy client certificate, which is sent to aggregated servers. If it is
	// nil, no certificate is sent.
	Certificate func() (*tls.Certificate, error)
	// Dial connects to aggregated servers; nil connects directly.
	Dial egress.Dial
	// PassRedirects passes redirects of aggregated servers to the client.
	PassRedirects bool
	// Proxy forwards requests. If it is nil, New creates a Proxy.
	Proxy *proxy.Proxy
	// Stopping is the context of requests for OpenAPI documents; nil means context.Background().
	Stopping context.Context
	// Documents receives the OpenAPI documents of aggregated servers. If Documents is nil, no OpenAPI documents
	// are fetched.
	Documents *openapi.Documents
	// Resync is the interval between periodic availability checks; 0 means DefaultResync.
	Resync time.Duration
	// Logger logs failures; nil discards them.
	Logger *slog.Logger
	// Metrics receives the availability metrics, and Reflectors the metrics of the reflectors; nil disables
	// them.
	Metrics    *Metrics
	Reflectors *reflector.Metrics
}

// Source contains the registered APIServices and the proxies to their servers. All methods except Load,
// Register and Run are safe for concurrent use and do not block on I/O.
type Source struct {
	config  Config
	logger  *slog.Logger
	own     map[schema.GroupVersion]bool
	metrics *Metrics

	current   atomic.Pointer[snapshot]
	reflector *reflector.Reflector // of the stored APIServices
	// dirty receives the APIServices to autoregister. wakeChecks contains a token while the checks
	// have not processed the current registrations.
	dirty      *dirtySet
	wakeChecks chan struct{}
	proxy      *proxy.Proxy

	mu struct {
		sync.Mutex                          // held while current is replaced
		versions   reflector.VersionTracker // by the name of the APIService
	}
}

// snapshot contains all registrations. It is immutable.
type snapshot struct {
	generation uint64
	remotes    map[schema.GroupVersion]*registration
	// priorities contains the priorities of group versions of this server that differ from
	// defaultPriority.
	priorities map[schema.GroupVersion]Priority
}

// New returns a source without registrations. Load reads the stored APIServices, and the Reflector of the
// source follows their changes. If required fields of config are missing, the error names them.
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
	if config.Endpoints == nil {
		config.Endpoints = func() map[schema.GroupResource]reflector.Collection { return nil }
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

// Handler returns the proxy for a group version, or nil if the group version is not registered for another
// server.
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

// Remotes returns the discovery of the group versions that are registered for other servers. The
// caller owns the map, but must not modify its values.
func (s *Source) Remotes() map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery {
	remotes := s.current.Load().remotes
	discovery := make(map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery, len(remotes))
	for gv, r := range remotes {
		discovery[gv] = r.resources
	}
	return discovery
}

// Priority returns the group and version priority of a group version, which determine the order of
// discovery.
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

// defaultPriority returns the priority with which a group version of this server is autoregistered.
func (s *Source) defaultPriority(gv schema.GroupVersion) Priority {
	if s.own[gv] {
		return builtInPriority(gv)
	}
	return customPriority
}

// Generation returns a number that increases with every change to the results of Remotes and Priority. Caches
// of discovery compare it to detect changes.
func (s *Source) Generation() uint64 { return s.current.Load().generation }

// LocalChanged marks group versions for autoregistration after this server has started or stopped
// serving them.
func (s *Source) LocalChanged(versions []schema.GroupVersion) {
	for _, gv := range versions {
		s.dirty.add(nameOf(gv))
	}
}

// Observe applies an APIService that this server has written, so that the write has taken effect before the
// client receives the response. It ignores the record if a newer revision was applied. It returns an error if
// the record cannot be decoded.
func (s *Source) Observe(record *codec.Record) error { return s.update(record, false) }

// ObserveDeleted is like Observe, for an APIService that this server has deleted.
func (s *Source) ObserveDeleted(name string, revision int64) { s.remove(name, revision, false) }

func serviceOf(record *codec.Record) (*apiregistrationv1.APIService, error) {
	service, err := codec.SharedAs[*apiregistrationv1.APIService](record)
	if err != nil {
		return nil, fmt.Errorf("read APIService %s: %w", record.Name().Name, err)
	}
	return service, nil
}

// update applies an APIService, unless a newer revision was applied. watched is true if the record comes from a
// list or a watch event, and false if this server wrote it.
func (s *Source) update(record *codec.Record, watched bool) error {
	service, err := serviceOf(record)
	if err != nil {
		return err
	}
	gv := groupVersionOf(service.Name)
	if gv.Group == apiregistrationv1.GroupName {
		return nil // never proxied, because then the registration could not be deleted
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
	s.publishLocked(now.with(gv, r), old == nil || !old.isDiscoveredLike(r))
	return nil
}

// updateLocalLocked applies an APIService without a Service, or one of a built-in group version.
func (s *Source) updateLocalLocked(now *snapshot, gv schema.GroupVersion, service *apiregistrationv1.APIService) {
	if !s.isUpToDate(service, gv, s.desiredLabel(gv), false) {
		s.dirty.add(service.Name)
	}
	priority := Priority{service.Spec.GroupPriorityMinimum, service.Spec.VersionPriority}
	previous, differs := now.priorities[gv]
	if !differs {
		previous = s.defaultPriority(gv)
	}
	if previous == priority && now.remotes[gv] == nil {
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
	s.publishLocked(next, true)
}

func (s *Source) isNewerLocked(name string, revision int64, watched bool) bool {
	if watched {
		return s.mu.versions.Reflected(name, revision)
	}
	return s.mu.versions.Written(name, revision)
}

// remove removes an APIService, unless a newer revision was applied.
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
	_, differs := now.priorities[gv]
	if !newer || old == nil && !differs || old != nil && old.revision > revision {
		return
	}
	next := now.with(gv, nil)
	next.priorities = maps.Clone(now.priorities)
	delete(next.priorities, gv)
	s.publishLocked(next, true)
}

// newRegistration returns the registration of an APIService. If old has the same address, the result keeps the
// server and the discovery of old. Otherwise, it shares the server of another registration with that address,
// if any. old may be nil.
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

// isDiscoveredLike reports whether discovery and availability are the same for two registrations. An APIService
// with another UID needs its own check, because the result of a check is written only to the checked APIService.
func (r *registration) isDiscoveredLike(other *registration) bool {
	return r.uid == other.uid && r.server == other.server && r.priority == other.priority && r.resources == other.resources && r.available == other.available
}

// with returns a snapshot with r as the registration of a group version, or without a registration
// if r is nil.
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

// publishLocked replaces the current snapshot with next, and closes servers that no longer have a registration.
// changed is true if discovery or availability differs.
func (s *Source) publishLocked(next *snapshot, changed bool) {
	previous := s.current.Load()
	if changed {
		next.generation++
	}
	s.current.Store(next)
	used := map[*server]bool{}
	for _, r := range next.remotes {
		used[r.server] = true
	}
	for gv, r := range previous.remotes {
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

// triggerChecks wakes the checks to process the registrations. It does not block.
func (s *Source) triggerChecks() {
	select {
	case s.wakeChecks <- struct{}{}:
	default: // there is a token already
	}
}

// setResources sets the discovery of a group version. It does nothing if another server has been registered
// for the group version since r was read.
func (s *Source) setResources(r *registration, resources *apidiscovery.APIVersionDiscovery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.current.Load()
	current := now.remotes[r.gv]
	if current == nil || current.server != r.server || equalResources(current.resources, resources) {
		return
	}
	updated := *current
	updated.resources = resources
	next := now.with(r.gv, &updated)
	next.generation++
	s.current.Store(next)
}
