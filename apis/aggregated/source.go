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

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/egress"
	"mainstay.dev/mainstay/openapi"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/storage"
	"mainstay.dev/mainstay/storage/reflector"
)

// DefaultResync is how often servers are looked at that nothing is heard of.
const DefaultResync = 30 * time.Second

// Config is what a Source is made of.
type Config struct {
	// APIServices keeps the registrations. It is read and watched all the
	// time, so it should not be a cache of its own. Required.
	APIServices storage.Interface
	// Creater makes APIServices by the rules of their resource. Required.
	Creater rest.Creater
	// Own are the group versions that this server always answers for;
	// Served tells which others it does (custom resources). Required.
	Own    []schema.GroupVersion
	Served func(schema.GroupVersion) bool
	// Account records in obj, which becomes the result, that this server wrote
	// it, or that subresource of it, in place of live; nil records nothing.
	Account func(live, obj codec.Object, subresource string) (codec.Object, error)
	// Cluster has the services, and Resolver finds them. Required.
	Cluster  egress.Cluster
	Resolver egress.Resolver
	// Behind are the services, and the resources that stand for what is behind
	// them, to be followed; where one is missing, its changes are noticed with
	// the next look.
	Behind map[schema.GroupResource]reflector.Collection
	// Certificate is what this server shows to those it sends requests to; nil
	// shows none.
	Certificate func() (*tls.Certificate, error)
	// PassRedirects lets answers through that send the client elsewhere.
	PassRedirects bool
	// Stopping, where set, ends tunnels with it.
	Stopping context.Context
	// Documents is told of the OpenAPI documents of other servers; nil: they
	// are not asked for.
	Documents *openapi.Documents
	// Resync is how often servers are looked at; 0 means DefaultResync.
	Resync time.Duration
	Logger *slog.Logger
	// Metrics counts what is available, and Following how all this is followed;
	// either may be nil.
	Metrics   *Metrics
	Following *reflector.Metrics
}

// Source knows what other servers answer for. It is safe for concurrent use.
type Source struct {
	config  Config
	logger  *slog.Logger
	own     map[schema.GroupVersion]bool
	metrics *Metrics

	current atomic.Pointer[snapshot]
	// follower tells of the stored APIServices.
	follower *reflector.Reflector
	// dirty are names of APIServices of this server's own that Run is to look
	// at; woken tells the checks that something is new.
	dirty *marks
	woken chan struct{}
	// buffers are shared by all requests that are sent on.
	buffers buffers

	mu struct {
		sync.Mutex                          // held while the snapshot is exchanged
		news       reflector.VersionTracker // of APIServices, by their names
	}
}

// snapshot is all registrations at a time. It is immutable.
type snapshot struct {
	generation uint64
	remotes    map[schema.GroupVersion]*registration
	// priorities are those of this server's own group versions where they are
	// not what they usually are.
	priorities map[schema.GroupVersion]Priority
}

// New returns a source without registrations. Load gives it those that are
// stored; Run keeps it current.
func New(config Config) (*Source, error) {
	var errs []error
	for name, missing := range map[string]bool{
		"APIServices": config.APIServices == nil, "Creater": config.Creater == nil, "Served": config.Served == nil,
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
	s := &Source{
		config: config, logger: config.Logger, own: map[schema.GroupVersion]bool{}, metrics: config.Metrics,
		dirty: newMarks(), woken: make(chan struct{}, 1),
	}
	for _, gv := range config.Own {
		s.own[gv] = true
		if gv.Group != apiregistrationv1.GroupName {
			s.dirty.add(nameOf(gv))
		}
	}
	s.current.Store(&snapshot{})
	var err error
	if s.follower, err = reflector.New(reflector.Config{
		Name: "APIServices", Collection: config.APIServices, Replace: s.replace, Apply: s.apply, Logger: s.logger, Metrics: config.Following,
	}); err != nil {
		return nil, err
	}
	return s, nil
}

// Handler returns what answers for a group version that another server is
// registered for, nil for all others.
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

// Remotes returns what other servers say of the group versions that they are
// registered for. The caller must not change it.
func (s *Source) Remotes() map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery {
	remotes := s.current.Load().remotes
	shown := make(map[schema.GroupVersion]*apidiscovery.APIVersionDiscovery, len(remotes))
	for gv, r := range remotes {
		shown[gv] = r.resources
	}
	return shown
}

// Priority returns how a group version is ordered.
func (s *Source) Priority(gv schema.GroupVersion) (group, version int32) {
	now := s.current.Load()
	if r := now.remotes[gv]; r != nil {
		return r.priority.Group, r.priority.Version
	}
	p, found := now.priorities[gv]
	if !found {
		p = s.usual(gv)
	}
	return p.Group, p.Version
}

// usual is the priority of a group version of this server's own.
func (s *Source) usual(gv schema.GroupVersion) Priority {
	if s.own[gv] {
		return builtInPriority(gv)
	}
	return customPriority
}

// Generation grows with every change of what Remotes and Priority return.
func (s *Source) Generation() uint64 { return s.current.Load().generation }

// LocalChanged tells that this server answers for group versions that it did
// not answer for, or the other way round.
func (s *Source) LocalChanged(versions []schema.GroupVersion) {
	for _, gv := range versions {
		s.dirty.add(nameOf(gv))
	}
}

// Observe takes note of an APIService that was just written, so that whoever
// wrote it finds it in effect. It may be called with old news.
func (s *Source) Observe(record *codec.Record) error { return s.put(record, false) }

// ObserveDeleted takes note of one that was deleted at a revision.
func (s *Source) ObserveDeleted(name string, revision int64) { s.remove(name, revision, false) }

func serviceOf(record *codec.Record) (*apiregistrationv1.APIService, error) {
	obj, err := record.Shared()
	if err != nil {
		return nil, fmt.Errorf("read APIService %s: %w", record.Name().Name, err)
	}
	service, ok := obj.(*apiregistrationv1.APIService)
	if !ok {
		return nil, fmt.Errorf("read APIService %s: it is a %T", record.Name().Name, obj)
	}
	return service, nil
}

// put takes an APIService in, if it is news. watched tells that the watch
// reports it.
func (s *Source) put(record *codec.Record, watched bool) error {
	service, err := serviceOf(record)
	if err != nil {
		return err
	}
	gv := groupVersionOf(service.Name)
	if gv.Group == apiregistrationv1.GroupName {
		return nil // nobody else answers for registrations: they could not be taken back
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isNewsLocked(service.Name, record.Revision(), watched) {
		return nil
	}
	now := s.current.Load()
	old := now.remotes[gv]
	if old != nil && old.revision >= record.Revision() {
		return nil
	}
	if service.Spec.Service == nil {
		s.putLocalLocked(now, gv, service)
		return nil
	}
	r := s.register(now, old, gv, service, record.Revision())
	s.exchangeLocked(now.with(gv, r), old == nil || !old.looksLike(r))
	return nil
}

// putLocalLocked takes in an APIService that nobody else answers for.
func (s *Source) putLocalLocked(now *snapshot, gv schema.GroupVersion, service *apiregistrationv1.APIService) {
	if !s.asItShould(service, gv, s.wanted(gv), false) {
		s.dirty.add(service.Name)
	}
	priority := Priority{service.Spec.GroupPriorityMinimum, service.Spec.VersionPriority}
	known, unusual := now.priorities[gv]
	if !unusual {
		known = s.usual(gv)
	}
	if known == priority && now.remotes[gv] == nil {
		return
	}
	next := now.with(gv, nil)
	next.priorities = maps.Clone(now.priorities)
	if priority == s.usual(gv) {
		delete(next.priorities, gv)
	} else if next.priorities == nil {
		next.priorities = map[schema.GroupVersion]Priority{gv: priority}
	} else {
		next.priorities[gv] = priority
	}
	s.exchangeLocked(next, true)
}

func (s *Source) isNewsLocked(name string, revision int64, watched bool) bool {
	if watched {
		return s.mu.news.Reflected(name, revision)
	}
	return s.mu.news.Written(name, revision)
}

// remove takes an APIService out.
func (s *Source) remove(name string, revision int64, watched bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.isNewsLocked(name, revision, watched)
	gv := groupVersionOf(name)
	if s.own[gv] || s.config.Served(gv) {
		s.dirty.add(name)
	}
	now := s.current.Load()
	old := now.remotes[gv]
	_, unusual := now.priorities[gv]
	if !news || old == nil && !unusual || old != nil && old.revision > revision {
		return
	}
	next := now.with(gv, nil)
	next.priorities = maps.Clone(now.priorities)
	delete(next.priorities, gv)
	s.exchangeLocked(next, true)
}

// register makes the registration of an APIService. What is known of the server
// from an older one stays.
func (s *Source) register(now *snapshot, old *registration, gv schema.GroupVersion, service *apiregistrationv1.APIService, revision int64) *registration {
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

// looksLike tells that two registrations are shown alike, and that nothing is
// to be found out anew.
func (r *registration) looksLike(other *registration) bool {
	return r.server == other.server && r.priority == other.priority && r.resources == other.resources && r.available == other.available
}

// with returns a snapshot in which a group version is another server's, or not
// any more where r is nil.
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

// exchangeLocked puts a snapshot in force. Servers that nobody is registered
// for any more are let go.
func (s *Source) exchangeLocked(next *snapshot, changed bool) {
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
		s.wake()
	}
}

// wake makes the checks look at what there is.
func (s *Source) wake() {
	select {
	case s.woken <- struct{}{}:
	default: // it is about to look anyway
	}
}

// heard keeps what a server says of a group version, unless somebody else is
// registered for it by now.
func (s *Source) heard(r *registration, resources *apidiscovery.APIVersionDiscovery) {
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
