package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/apis/peers"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/telemetry"
)

// checkPeers validates the address of this server for other servers.
func (o Options) checkPeers() error {
	var errs []error
	if !o.Gates().Enabled(feature.UnknownVersionInteroperabilityProxy) {
		for _, given := range []struct{ flag, value string }{{"peer-advertise-ip", o.PeerAdvertiseIP}, {"peer-advertise-port", o.PeerAdvertisePort}} {
			if given.value != "" {
				errs = append(errs, fmt.Errorf("--%s requires UnknownVersionInteroperabilityProxy feature to be turned on", given.flag))
			}
		}
	}
	if _, err := netip.ParseAddr(o.PeerAdvertiseIP); o.PeerAdvertiseIP != "" && err != nil {
		errs = append(errs, fmt.Errorf("--peer-advertise-ip: %w", err))
	}
	if port, err := strconv.Atoi(o.PeerAdvertisePort); o.PeerAdvertisePort != "" && (err != nil || port < 1 || port > 65535) {
		errs = append(errs, fmt.Errorf("--peer-advertise-port is %q; it must be between 1 and 65535", o.PeerAdvertisePort))
	}
	if (o.PeerAdvertiseIP == "") != (o.PeerAdvertisePort == "") {
		errs = append(errs, errors.New("--peer-advertise-ip and --peer-advertise-port must be given together"))
	}
	return errors.Join(errs...)
}

// interoperates reports whether other servers may send requests on to this one.
func (i *instance) interoperates() bool {
	return i.env.Shared && i.rows.Gates.Enabled(feature.UnknownVersionInteroperabilityProxy)
}

// peerAddress returns where other servers reach this one, "" if they do not.
func (i *instance) peerAddress() string {
	switch {
	case !i.interoperates():
		return ""
	case i.options.PeerAdvertiseIP != "":
		return net.JoinHostPort(i.options.PeerAdvertiseIP, i.options.PeerAdvertisePort)
	case !i.env.Endpoint.IsValid():
		return ""
	}
	return net.JoinHostPort(i.env.Endpoint.String(), strconv.Itoa(i.env.Port))
}

// openPeers creates the source of resources of other servers, if peer proxying is enabled.
func (i *instance) openPeers() error {
	if !i.interoperates() || i.env.PeerAuthorities == nil {
		return nil
	}
	addresses, err := i.sharedLeases(peerLeasesPath)
	if err != nil {
		return err
	}
	leases, err := i.uncached(coordinationv1.Resource("leases"))
	if err != nil {
		return err
	}
	i.peers, err = peers.New(peers.Config{
		ID: telemetry.ServerID(i.env.Hostname), Leases: leases, Selector: bootstrap.IdentitySelector(),
		Address:     func(ctx context.Context, id string) (string, error) { return peerAddressOf(ctx, addresses, id) },
		Authorities: i.env.PeerAuthorities, Certificate: i.env.Identity.ProxyCertificate,
		Shared: func(gv schema.GroupVersion) bool { return i.custom.Serves(gv) || i.aggregated.Handler(gv) != nil },
		Proxy:  i.proxy, Metrics: i.env.Metrics.Peers, Reflectors: i.env.Metrics.Reflectors, Logger: i.env.Logger,
	})
	return err
}

// peerAddressOf reads the lease of a server.
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
