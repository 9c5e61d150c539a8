// Package peers proxies requests to other servers of the cluster if this server does not serve the requested
// resource, like kube-apiserver's mixed version proxy (KEP-4020). While servers of two versions run
// concurrently, the clients of each server can use the resources of both. A Source finds the other servers by
// their identity leases, and their resources through their discovery. The other server authorizes a proxied
// request for the user in the front proxy headers.
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
	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// serverName is a DNS name that the serving certificates of all servers contain.
const serverName = "kubernetes.default.svc"

// Config configures a Source. All fields but Logger and Reflectors are required.
type Config struct {
	// ID is the identity of this server, which is the name of its identity lease.
	ID string
	// Leases provides the leases. Selector selects the identity leases of servers.
	Leases   reflector.Collection
	Selector labels.Selector
	// Address returns the host and port of a server, or "" if the server has not published them.
	Address func(ctx context.Context, id string) (string, error)
	// Authorities contains the CA certificates for the other servers. Certificate returns the
	// client certificate of this server.
	Authorities *x509.CertPool
	Certificate func() (*tls.Certificate, error)
	// Shared reports whether all servers serve a group version regardless of their own version, because a
	// stored definition or APIService specifies the group version. Requests for it are not proxied.
	Shared func(schema.GroupVersion) bool

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
	changed   chan struct{} // contains a token while discovery must be fetched

	// mu guards the fields below and the replacement of current.
	mu sync.Mutex
	// holders contains the holders of the identity leases of other servers, by the name of the
	// lease.
	holders map[string]string
	// defined contains all group versions that were passed to Changed.
	defined map[schema.GroupVersion]bool
}

// snapshot contains the resources of the other servers. It is immutable.
type snapshot struct {
	generation uint64
	peers      map[string]*peer // by the name of the identity lease
}

// peer describes another server and its resources.
type peer struct {
	address   string
	resources map[schema.GroupVersionResource]bool
	groups    []apidiscovery.APIGroupDiscovery // without the core group
}

// New returns a Source that does not contain other servers until Run finds them. It returns an error if the
// configuration of the reflector is invalid.
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

// newTransport returns a transport for requests to other servers. It uses HTTP/2 if http2 is set.
func (s *Source) newTransport(http2 bool) *http.Transport {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.config.Authorities, ServerName: serverName}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.config.Certificate() }
	return &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: http2, HTTP2: egress.HTTP2Pings(),
		IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 1 << 20, TLSHandshakeTimeout: 10 * time.Second,
	}
}

// Run watches the leases and fetches the discovery of the other servers until ctx is done. It retries failed
// requests with backoff. It must be called once.
func (s *Source) Run(ctx context.Context) {
	var reflecting sync.WaitGroup
	reflecting.Go(func() { s.reflector.Run(ctx) })
	defer reflecting.Wait()
	for {
		select {
		case <-s.changed:
		case <-ctx.Done():
			return
		}
		backoff := reflector.Backoff(reflector.MaxBackoff)
		for !s.fetchAll(ctx) {
			if reflector.Sleep(ctx, &backoff) != nil {
				return
			}
		}
	}
}

func (s *Source) replace(_ context.Context, list *rest.List) error {
	listed := map[string]string{}
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		if holder := s.holderOf(record); holder != "" {
			listed[record.Name().Name] = holder
		}
	}
	s.updateHolders(func(holders map[string]string) { clear(holders); maps.Copy(holders, listed) })
	return nil
}

func (s *Source) apply(_ context.Context, events []rest.Event) error {
	s.updateHolders(func(holders map[string]string) {
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

// updateHolders calls change to modify the holders. If they differ afterwards, it triggers a fetch of
// discovery. Most lease events are renewals, which do not change the holders.
func (s *Source) updateHolders(change func(map[string]string)) {
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

// holderOf returns the holder of the identity lease of another server. It returns "" for the lease of this
// server, and if the lease has no holder or cannot be decoded.
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

// fetchAll fetches the discovery of all other servers. It reports whether all requests succeeded. Servers for
// which a request failed are not in the new snapshot.
func (s *Source) fetchAll(ctx context.Context) (all bool) {
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
			s.config.Logger.Debug("discovery of another server failed", "server", id, "err", err)
			continue
		}
		next.peers[id] = p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next.generation = s.current.Load().generation + 1
	for gv := range s.defined {
		next.remove(gv)
	}
	s.current.Store(next)
	return all
}

// Changed removes group versions of custom resources from the discovery of other servers. All servers serve the
// same custom resources, but the discovery that was fetched from another server may be outdated. Changed does
// not block on I/O.
func (s *Source) Changed(versions []schema.GroupVersion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, gv := range versions {
		if s.defined[gv] {
			continue
		}
		s.defined[gv] = true
		next := s.current.Load().clone()
		next.remove(gv)
		s.current.Store(next)
	}
}

// clone returns a copy with the next generation. The caller may modify the copy.
func (s *snapshot) clone() *snapshot {
	next := &snapshot{generation: s.generation + 1, peers: map[string]*peer{}}
	for id, p := range s.peers {
		next.peers[id] = &peer{address: p.address, resources: maps.Clone(p.resources), groups: slices.Clone(p.groups)}
	}
	return next
}

// remove removes the resources of a group version. The snapshot must not be in use yet.
func (s *snapshot) remove(gv schema.GroupVersion) {
	for _, p := range s.peers {
		maps.DeleteFunc(p.resources, func(gvr schema.GroupVersionResource, _ bool) bool { return gvr.GroupVersion() == gv })
		p.groups = withoutVersions(p.groups, func(other schema.GroupVersion) bool { return other == gv })
	}
}

// withoutVersions returns groups without the versions for which drop returns true, and without
// empty groups. It does not modify its argument.
func withoutVersions(groups []apidiscovery.APIGroupDiscovery, drop func(schema.GroupVersion) bool) []apidiscovery.APIGroupDiscovery {
	var remaining []apidiscovery.APIGroupDiscovery
	for _, group := range groups {
		group.Versions = slices.DeleteFunc(slices.Clone(group.Versions), func(v apidiscovery.APIVersionDiscovery) bool {
			return drop(schema.GroupVersion{Group: group.Name, Version: v.Version})
		})
		if len(group.Versions) > 0 {
			remaining = append(remaining, group)
		}
	}
	return remaining
}

// Generation returns a number that increases whenever the discovery of other servers changes.
func (s *Source) Generation() uint64 { return s.current.Load().generation }

// Groups returns the groups in the discovery of each other server, sorted by the server's identity. The core
// group is not included. The groups are shared and must not be modified.
func (s *Source) Groups() [][]apidiscovery.APIGroupDiscovery {
	now := s.current.Load()
	var all [][]apidiscovery.APIGroupDiscovery
	for _, id := range slices.Sorted(maps.Keys(now.peers)) {
		all = append(all, now.peers[id].groups)
	}
	return all
}

// errNoAddress returns the error for a server that has not published its address yet.
func errNoAddress(id string) error { return fmt.Errorf("server %s has published no address", id) }
