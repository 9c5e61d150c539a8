package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/aggregated"
	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/apis/custom"
	"mainstay.dev/mainstay/internal/apis/peers"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/telemetry"
)

// proxiesToPeers reports whether the servers that share a store forward requests to each other.
func (s *settings) proxiesToPeers() bool {
	return s.env.Storage.Shared && s.gates.Enabled(feature.UnknownVersionInteroperabilityProxy)
}

// peerAddress returns the address at which other servers reach this server, or "" if other servers do not
// connect to it.
func (s *settings) peerAddress() string {
	network := &s.env.Network
	switch {
	case !s.proxiesToPeers():
		return ""
	case s.options.Peers.AdvertiseIP != "":
		return net.JoinHostPort(s.options.Peers.AdvertiseIP, s.options.Peers.AdvertisePort)
	case !network.Endpoint.IsValid():
		return ""
	}
	return net.JoinHostPort(network.Endpoint.String(), strconv.Itoa(network.Port))
}

// newPeers creates the source of the resources that other servers serve, or returns nil if requests are not
// forwarded.
func newPeers(s *settings, builtin *builtinResources, conns *connections, definitions *custom.Source, registrations *aggregated.Source, versions *versionListeners) (*peers.Source, error) {
	if !s.proxiesToPeers() || s.env.Network.PeerAuthorities == nil {
		return nil, nil
	}
	addresses, err := builtin.serverLeases(peerLeasesPath)
	if err != nil {
		return nil, err
	}
	leases, err := builtin.uncached(coordinationv1.Resource("leases"))
	if err != nil {
		return nil, err
	}
	source, err := peers.New(peers.Config{
		ID: telemetry.ServerID(s.env.Network.Hostname), Leases: leases, Selector: bootstrap.IdentitySelector(),
		Address:     func(ctx context.Context, id string) (string, error) { return peerAddressOf(ctx, addresses, id) },
		Authorities: s.env.Network.PeerAuthorities, Certificate: s.env.Identity.ProxyCertificate,
		Shared: func(gv schema.GroupVersion) bool { return definitions.Serves(gv) || registrations.Handler(gv) != nil },
		Proxy:  conns.proxy, Metrics: s.env.Telemetry.Metrics.Extensions.Peers, Reflectors: s.reflectorMetrics(), Logger: s.env.Telemetry.Logger,
	})
	if err != nil {
		return nil, err
	}
	versions.add(source.Changed)
	return source, nil
}

// peerAddressOf returns the address in the lease of a server, or "" if there is no lease or no address.
func peerAddressOf(ctx context.Context, leases storage.Interface, id string) (string, error) {
	record, err := leases.Get(ctx, types.NamespacedName{Name: id}, storage.ReadOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the address of server %s: %w", id, err)
	}
	lease, err := codec.SharedAs[*corev1.Endpoints](record)
	if err != nil || len(lease.Subsets) == 0 || len(lease.Subsets[0].Addresses) == 0 || len(lease.Subsets[0].Ports) == 0 {
		return "", err
	}
	return net.JoinHostPort(lease.Subsets[0].Addresses[0].IP, strconv.Itoa(int(lease.Subsets[0].Ports[0].Port))), nil
}
