package server

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/apis/bootstrap"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/storage"
)

// Values of Config.EndpointReconciler.
const (
	// EndpointsByLease publishes the addresses of all servers that share the
	// store.
	EndpointsByLease = "lease"
	// EndpointsByOthers publishes none, and leaves alone what another program
	// publishes.
	EndpointsByOthers = "none"
)

// bootstrap creates what every cluster has. What it cannot make of the objects
// in apis/bootstrap is tried again while the server runs, and /readyz says so.
func (s *Server) bootstrap(ctx context.Context) error {
	config, err := s.bootstrapConfig()
	if err != nil {
		return err
	}
	s.cluster = bootstrap.New(config)
	var group errgroup.Group
	group.Go(func() error { s.cluster.Start(ctx); return nil })
	group.Go(func() error { return s.aggregated.Register(ctx) })
	group.Go(func() error { return s.trust.follower.Load(ctx) })
	return group.Wait()
}

func (s *Server) bootstrapConfig() (bootstrap.Config, error) {
	config := bootstrap.Config{
		Find: s.api.catalog.Find, Stored: s.storedDirectly,
		Account: func(resource *rest.Resource, live, obj codec.Object, manager string) (codec.Object, error) {
			return accountFor(s.trust.managers, resource, live, obj, manager)
		},
		Apply:         s.applyAs,
		ServiceRanges: s.config.ServiceClusterIPRange,
		Port:          s.port(),
		Logger:        s.logger,
	}
	if len(s.config.EtcdServers) == 0 {
		config.Revision = func(ctx context.Context) (int64, error) {
			revision, err := s.backend.CurrentRevision(ctx)
			return int64(revision), err
		}
	}
	if s.config.EndpointReconciler != EndpointsByOthers {
		config.Endpoint = s.config.endpoint()
		if len(s.config.EtcdServers) > 0 {
			var err error
			if config.Leases, err = s.serverLeases(); err != nil {
				return config, err
			}
		}
	}
	return config, nil
}

// storedDirectly returns the storage of a resource without its cache.
func (s *Server) storedDirectly(gr schema.GroupResource) (storage.Interface, error) {
	path := gr.Resource
	switch gr {
	case corev1.Resource("services"):
		path = "services/specs"
	case corev1.Resource("endpoints"):
		path = "services/endpoints"
	}
	return s.storageAt(path, gr, false)
}

// serverLeases are the leases by which servers over one etcd know of each other,
// under kube-apiserver's keys.
func (s *Server) serverLeases() (storage.Interface, error) {
	return s.storageAt("masterleases", corev1.Resource("endpoints"), true)
}

// storageAt opens a storage of objects of a built-in resource at a path of its
// own. flat says that keys hold no namespace, although the objects have one.
func (s *Server) storageAt(path string, gr schema.GroupResource, flat bool) (storage.Interface, error) {
	for _, group := range s.api.catalog.Groups() {
		if group.Name != gr.Group {
			continue
		}
		for _, version := range group.Versions {
			if r := s.api.catalog.Find(version.GroupVersion, gr.Resource, ""); r != nil {
				return storage.New(storage.Config{
					Backend: s.backend, Prefix: s.config.EtcdPrefix, ResourcePrefix: path, Kind: r.Kind,
					Namespaced: r.Namespaced && !flat, GroupResource: gr, Metrics: s.storageMetrics,
				})
			}
		}
	}
	return nil, fmt.Errorf("%s are not served", gr)
}

// applyAs merges what a manager of this server applies, by force.
func (s *Server) applyAs(resource *rest.Resource, live codec.Object, applied *unstructured.Unstructured, manager string) (codec.Object, error) {
	fields, err := s.trust.managers.For(resource)
	if err != nil {
		return nil, err
	}
	live.GetObjectKind().SetGroupVersionKind(resource.Version.GVK)
	return fields.Apply(live, applied, manager, true)
}

// withdrawPatience is how long a server that stops tries to take its endpoint
// back: without a word its lease ends as soon.
const withdrawPatience = 5 * time.Second

// withdraw takes this server's endpoint back before it stops.
func (s *Server) withdraw() {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawPatience)
	defer cancel()
	if err := s.cluster.Withdraw(ctx); err != nil {
		s.logger.Warn("other servers take some seconds to learn that this one has stopped", "err", err)
	}
}

// port is the port that the server listens on.
func (s *Server) port() int {
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.url(), "https://"))
	if err != nil {
		return s.config.SecurePort
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return s.config.SecurePort
	}
	return number
}

// endpoint is the address that is published of this server, as
// kube-apiserver finds it: the advertised one, or else the bound one, or else
// one of this machine's, in the family of the service. Zero where there is none
// that others may use.
func (c Config) endpoint() netip.Addr {
	wantIPv4 := c.ServiceClusterIPRange[0].Addr().Is4()
	usable := func(addr netip.Addr) bool { return addr.IsGlobalUnicast() && addr.Unmap().Is4() == wantIPv4 }
	for _, addr := range []netip.Addr{c.AdvertiseAddress, c.BindAddress} {
		if usable(addr) {
			return addr.Unmap()
		}
	}
	for _, text := range ownAddresses() {
		if addr, err := netip.ParseAddr(text); err == nil && usable(addr) {
			return addr.Unmap()
		}
	}
	return netip.Addr{}
}
