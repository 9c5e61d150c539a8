package controlplane

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/storage"
)

// Values of Options.EndpointReconciler.
const (
	// EndpointsByLease publishes the addresses of all servers that share the
	// store.
	EndpointsByLease = "lease"
	// EndpointsByOthers publishes no endpoints, and does not modify those of other programs.
	EndpointsByOthers = "none"
)

// openBootstrap prepares the objects that every cluster has.
func (i *instance) openBootstrap() error {
	config := bootstrap.Config{
		Access: i.local, Stored: i.uncached,
		ServiceRanges: i.options.ServiceClusterIPRange,
		Port:          i.env.Port,
		Logger:        i.env.Logger,
	}
	if !i.env.Shared {
		config.Revision = func(ctx context.Context) (int64, error) {
			revision, err := i.env.Backend.CurrentRevision(ctx)
			return int64(revision), err
		}
	}
	if i.options.EndpointReconciler != EndpointsByOthers {
		config.Endpoint = i.env.Endpoint
		if i.env.Shared {
			var err error
			if config.Leases, err = i.sharedLeases(serverLeasesPath); err != nil {
				return err
			}
		}
	}
	config.Identity = i.serverIdentity()
	if i.interoperates() {
		var err error
		if config.PeerLeases, err = i.sharedLeases(peerLeasesPath); err != nil {
			return err
		}
	}
	if i.storageVersions != nil {
		config.ReportVersions = i.storageVersions.Report
	}
	i.cluster = bootstrap.New(config)
	return nil
}

// bootstrap creates the objects of every cluster. It retries failures while the server runs, and
// /readyz reports them.
func (i *instance) bootstrap(ctx context.Context) error {
	err := i.cluster.StartNamespaces(ctx) // continue after an error: the hooks report their own
	var group errgroup.Group
	group.Go(func() error { i.cluster.Start(ctx); return nil })
	group.Go(func() error { return i.aggregated.Register(ctx) })
	group.Go(func() error { return i.clusterAuth.reflector.Load(ctx) })
	if err := errors.Join(err, group.Wait()); err != nil {
		return err
	}
	i.conditions.Start(ctx)
	if i.aggregation == nil {
		return nil
	}
	return i.aggregation.Aggregate(ctx)
}

// sharedLeases are leases by which servers over one etcd know of each other: endpoints
// under kube-apiserver's keys, which hold no namespace.
func (i *instance) sharedLeases(path string) (storage.Interface, error) {
	spec := i.rows.Spec(corev1.Resource("endpoints"))
	spec.Path, spec.Namespaced, spec.Uncached = path, false, true
	spec.Resource = leaseResources()[path] // which kube-apiserver does not encrypt
	return i.factory.Open(spec)
}
