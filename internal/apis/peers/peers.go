// Package peers forwards requests for resources that this server does not serve to another server
// of the cluster, like kube-apiserver's mixed version proxy (KEP-4020): while servers of two
// versions run concurrently, each of them responds for the resources of both. It finds the other
// servers by their identity leases, and their resources by their discovery. The other server
// authenticates and authorizes the request for the user in the front proxy headers.
package peers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// serverName is the name in the certificates of all servers.
const serverName = "kubernetes.default.svc"

// Config configures a Source. All fields but Logger and Reflectors are required.
type Config struct {
	// ID is this server's own.
	ID string
	// Leases are all leases; Selector selects the identity leases of servers.
	Leases   reflector.Collection
	Selector labels.Selector
	// Address returns the host:port of a server.
	Address func(ctx context.Context, id string) (string, error)
	// Authorities are the CA certificates for the other servers; Certificate is the client
	// certificate of this server.
	Authorities *x509.CertPool
	Certificate func() (*tls.Certificate, error)
	// Ours reports whether all servers serve a group version regardless of their version: those of
	// definitions and registrations.
	Ours func(schema.GroupVersion) bool

	Proxy      *proxy.Proxy
	Metrics    *Metrics
	Reflectors *reflector.Metrics
	Logger     *slog.Logger
}

// Source tracks the resources of the other servers. It is safe for concurrent use.
type Source struct {
	config    Config
	reflector *reflector.Reflector
	transport http.RoundTripper
	upgrade   http.RoundTripper // for requests that upgrade the connection
	current   atomic.Pointer[snapshot]
	changed   chan struct{} // contains one token while discovery must be fetched
	mu        sync.Mutex
	holders   map[string]string            // of the identity leases of the others, by their names
	defined   map[schema.GroupVersion]bool // which had definitions once
}

// snapshot is the known state of the other servers. It is immutable.
type snapshot struct {
	generation uint64
	peers      map[string]*peer // by identity
}

// peer is another server.
type peer struct {
	address   string
	resources map[schema.GroupVersionResource]bool
	groups    []apidiscovery.APIGroupDiscovery // without the core group
}

// New returns a source that knows of no other server.
func New(config Config) (*Source, error) {
	s := &Source{config: config, changed: make(chan struct{}, 1), holders: map[string]string{}, defined: map[schema.GroupVersion]bool{}}
	s.current.Store(&snapshot{})
	s.transport, s.upgrade = s.newTransport(true), s.newTransport(false)
	var err error
	s.reflector, err = reflector.New(reflector.Config{
		Name: "identity leases", Collection: config.Leases, Namespace: metav1.NamespaceSystem, Labels: config.Selector,
		Replace: s.replace, Apply: s.apply, Logger: config.Logger, Metrics: config.Reflectors,
	})
	return s, err
}

func (s *Source) newTransport(http2 bool) *http.Transport {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.config.Authorities, ServerName: serverName}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.config.Certificate() }
	return &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: http2, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 1 << 20, TLSHandshakeTimeout: 10 * time.Second}
}

// Run follows the other servers until ctx ends.
func (s *Source) Run(ctx context.Context) {
	var following sync.WaitGroup
	following.Go(func() { s.reflector.Run(ctx) })
	defer following.Wait()
	for {
		select {
		case <-s.changed:
		case <-ctx.Done():
			return
		}
		backoff := reflector.Backoff(reflector.MaxBackoff)
		for !s.fetch(ctx) {
			if reflector.Sleep(ctx, &backoff) != nil {
				return
			}
		}
	}
}

func (s *Source) replace(_ context.Context, list *rest.List) error {
	there := map[string]string{}
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		if holder := s.holderOf(record); holder != "" {
			there[record.Name().Name] = holder
		}
	}
	s.setHolders(func(holders map[string]string) { clear(holders); maps.Copy(holders, there) })
	return nil
}

func (s *Source) apply(_ context.Context, events []rest.Event) error {
	s.setHolders(func(holders map[string]string) {
		for i := range events {
			name, holder := events[i].Record.Name().Name, s.holderOf(events[i].Record)
			if events[i].Type == watch.Deleted || holder == "" {
				delete(holders, name)
			} else {
				holders[name] = holder
			}
		}
	})
	return nil
}

// setHolders changes the holders, and has discovery fetched if that made a difference:
// a lease is renewed all the time.
func (s *Source) setHolders(change func(map[string]string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := maps.Clone(s.holders)
	change(s.holders)
	if maps.Equal(before, s.holders) {
		return
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// holderOf returns who holds the lease of another server; "" where it is none.
func (s *Source) holderOf(record *codec.Record) string {
	if record.Name().Name == s.config.ID {
		return ""
	}
	lease, err := codec.SharedAs[*coordinationv1.Lease](record)
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// fetch fetches what the other servers have. It reports whether all have answered.
func (s *Source) fetch(ctx context.Context) (all bool) {
	s.mu.Lock()
	ids := slices.Sorted(maps.Keys(s.holders))
	s.mu.Unlock()
	next := &snapshot{peers: map[string]*peer{}}
	all = true
	for _, id := range ids {
		fetchCtx, cancel := context.WithTimeout(ctx, fetchTimeout)
		p, err := s.fetchPeer(fetchCtx, id)
		cancel()
		if err != nil {
			all = false
			s.config.Logger.Debug("the resources of another server are not known yet", "server", id, "err", err)
			continue
		}
		next.peers[id] = p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next.generation = s.current.Load().generation + 1
	for gv := range s.defined {
		next.forget(gv)
	}
	s.current.Store(next)
	return all
}

// Changed is told of group versions of definitions whenever they change. Other servers
// have them as this one has: what was fetched of them earlier would be out of date.
func (s *Source) Changed(versions []schema.GroupVersion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, gv := range versions {
		if s.defined[gv] {
			continue
		}
		s.defined[gv] = true
		next := s.current.Load().clone()
		next.forget(gv)
		s.current.Store(next)
	}
}

// clone returns a copy that may be changed.
func (s *snapshot) clone() *snapshot {
	next := &snapshot{generation: s.generation + 1, peers: map[string]*peer{}}
	for id, p := range s.peers {
		next.peers[id] = &peer{address: p.address, resources: maps.Clone(p.resources), groups: slices.Clone(p.groups)}
	}
	return next
}

func (s *snapshot) forget(gv schema.GroupVersion) {
	for _, p := range s.peers {
		maps.DeleteFunc(p.resources, func(gvr schema.GroupVersionResource, _ bool) bool { return gvr.GroupVersion() == gv })
		p.groups = without(p.groups, func(other schema.GroupVersion) bool { return other == gv })
	}
}

// without returns groups without some of their versions.
func without(groups []apidiscovery.APIGroupDiscovery, drop func(schema.GroupVersion) bool) []apidiscovery.APIGroupDiscovery {
	var kept []apidiscovery.APIGroupDiscovery
	for _, group := range groups {
		group.Versions = slices.DeleteFunc(slices.Clone(group.Versions), func(v apidiscovery.APIVersionDiscovery) bool {
			return drop(schema.GroupVersion{Group: group.Name, Version: v.Version})
		})
		if len(group.Versions) > 0 {
			kept = append(kept, group)
		}
	}
	return kept
}

// Generation returns a number that grows with every change of what others have.
func (s *Source) Generation() uint64 { return s.current.Load().generation }

// Groups returns the discovery of each other server, in the order of their identities. It
// must not be changed.
func (s *Source) Groups() [][]apidiscovery.APIGroupDiscovery {
	now := s.current.Load()
	var all [][]apidiscovery.APIGroupDiscovery
	for _, id := range slices.Sorted(maps.Keys(now.peers)) {
		all = append(all, now.peers[id].groups)
	}
	return all
}

// errNoAddress is returned where a server has no endpoint yet.
func errNoAddress(id string) error { return fmt.Errorf("server %s has published no address", id) }
