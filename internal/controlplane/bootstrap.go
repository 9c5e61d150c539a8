package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/aggregated"
	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/controllers/clusterroles"
	"mainstay.dev/mainstay/internal/controllers/flowschemas"
	"mainstay.dev/mainstay/internal/controllers/storageversions"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/reflector"
	"mainstay.dev/mainstay/internal/telemetry"
)

// defaultObjects creates and maintains the default objects of a cluster.
type defaultObjects struct {
	settings      *settings
	bootstrap     *bootstrap.Bootstrap
	registrations *aggregated.Source
	clusterAuth   *clusterAuth
	conditions    *flowschemas.Conditions
	aggregation   *clusterroles.Aggregator // nil if the controller is disabled
	// seedable reports whether the recorded objects can be used for a first start. This requires that no other
	// server can be starting, that values are not encrypted, that this server aggregates roles, that neither
	// the audit log nor policies in files must process the creation of the objects, and that the feature gates
	// do not change the objects.
	seedable bool
}

// newDefaultObjects returns the component that creates the default objects. reporter is nil if storage versions
// are not reported. process reports whether the audit log or admission by files must process the creation of
// each object.
func newDefaultObjects(s *settings, r *resources, clusterAuth *clusterAuth, conditions *flowschemas.Conditions, controllers *controllerSet, reporter *storageversions.Reporter, process bool) (*defaultObjects, error) {
	config, err := newBootstrapConfig(s, r, reporter)
	if err != nil {
		return nil, err
	}
	d := &defaultObjects{
		settings: s, bootstrap: bootstrap.New(config), registrations: r.registrations, clusterAuth: clusterAuth, conditions: conditions,
		aggregation: controllerOf[*clusterroles.Aggregator](controllers),
	}
	d.seedable = !s.env.Storage.Shared && s.env.Storage.Transformer == nil && d.aggregation != nil && !process && bootstrap.Recorded(s.gates)
	r.versions.add(func([]schema.GroupVersion) { d.bootstrap.VersionsChanged() })
	return d, nil
}

func newBootstrapConfig(s *settings, r *resources, reporter *storageversions.Reporter) (bootstrap.Config, error) {
	config := bootstrap.Config{
		Access: r.access, Stored: r.builtin.uncached, Gates: s.gates,
		ServiceRanges: s.options.Services.ClusterIPRange,
		Port:          s.env.Network.Port,
		NodePort:      s.options.Services.KubernetesNodePort,
		Identity:      newServerIdentity(s),
		Logger:        s.env.Telemetry.Logger,
	}
	if !s.env.Storage.Shared {
		config.Revision = func(ctx context.Context) (int64, error) {
			revision, err := s.env.Storage.Backend.CurrentRevision(ctx)
			return int64(revision), err
		}
	}
	var err error
	if s.options.Services.EndpointReconciler != EndpointsByOthers {
		config.Endpoint = s.env.Network.Endpoint
		if s.env.Storage.Shared {
			if config.Leases, err = r.builtin.serverLeases(serverLeasesPath); err != nil {
				return config, err
			}
		}
	}
	if s.proxiesToPeers() {
		if config.PeerLeases, err = r.builtin.serverLeases(peerLeasesPath); err != nil {
			return config, err
		}
	}
	if reporter != nil {
		config.ReportVersions = reporter.Report
	}
	return config, nil
}

// newServerIdentity returns the identity of this server in its lease, or nil if this server has no lease.
func newServerIdentity(s *settings) *bootstrap.Identity {
	if !s.gates.Enabled(feature.APIServerIdentity) {
		return nil
	}
	hostname := s.env.Network.Hostname
	return &bootstrap.Identity{ID: telemetry.ServerID(hostname), Hostname: hostname, PeerAddress: s.peerAddress()}
}

// create creates the objects. The failures of single hooks are reported by their health checks. create returns
// errors only for objects without which the control plane cannot start.
func (d *defaultObjects) create(ctx context.Context) error {
	if d.settings.env.Storage.Seeded { // the loops create the missing objects
		if d.bootstrap.ReportsVersions() {
			d.bootstrap.Start(ctx)
		}
		d.conditions.Enable() // the recorded flow schemas already have their conditions
		return d.registrations.Register(ctx)
	}
	err := d.bootstrap.StartNamespaces(ctx)
	var group errgroup.Group
	group.Go(func() error { d.bootstrap.Start(ctx); return nil })
	group.Go(func() error { return d.registrations.Register(ctx) })
	group.Go(func() error { return d.clusterAuth.publish(ctx) })
	if err := errors.Join(err, group.Wait()); err != nil {
		return err
	}
	d.conditions.Start(ctx)
	if d.aggregation == nil {
		return nil
	}
	err = d.aggregation.Aggregate(ctx)
	if apierrors.IsForbidden(err) {
		// The roles do not permit the aggregation, or another server has just created them and the authorizer
		// of this server has not received them yet. The controller retries the aggregation.
		d.settings.env.Telemetry.Logger.Warn("the rules of aggregated ClusterRoles are not up to date yet", "prefix", d.settings.prefix, "err", err)
		return nil
	}
	return err
}

// createLater repeats the creation of the objects until it succeeds, for example because the store accepts
// writes again, and then returns nil. cause is the error of the previous attempt. Meanwhile, the existing
// objects are served. If ctx ends first, createLater returns the error of ctx.
func (d *defaultObjects) createLater(ctx context.Context, cause error) error {
	logger := d.settings.env.Telemetry.Logger
	logger.Error("some default objects of the cluster are missing; they are created when the store accepts writes", "prefix", d.settings.prefix, "err", cause)
	backoff := reflector.Backoff(reflector.MaxBackoff)
	for cause != nil {
		if err := reflector.Sleep(ctx, &backoff); err != nil {
			return err
		}
		cause = d.create(ctx)
	}
	logger.Info("all default objects of the cluster exist now", "prefix", d.settings.prefix)
	return nil
}

// seed stores the recorded default objects in one commit, if the store is empty and the result is the same as
// if the objects were created one by one.
func (d *defaultObjects) seed(ctx context.Context) error {
	if d.settings.env.Storage.Seeded {
		d.bootstrap.AllSeeded()
		return nil
	}
	if !d.seedable {
		return nil
	}
	backend, sim := d.settings.env.Storage.Backend, d.settings.env.Simulation
	prefix := d.settings.keyPrefix() + "/"
	existing, err := backend.Range(ctx, kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix), Limit: 1})
	if err != nil || len(existing.Entries) > 0 {
		return err
	}
	entries, err := bootstrap.Seed(sim.Now(), func(key string) types.UID { return sim.UID(key) })
	if err != nil || len(entries) == 0 {
		return err
	}
	ops := make([]kv.Op, len(entries))
	for n, e := range entries {
		ops[n] = kv.Op{Key: prefix + e.Key, Kind: kv.OpPut, Value: e.Value}
	}
	result, err := backend.Commit(ctx, ops...)
	switch {
	case errors.Is(err, kv.ErrNoSpace): // create is retried when there is space
		return nil
	case err != nil:
		return fmt.Errorf("store the default objects of the cluster: %w", err)
	}
	if result.Committed {
		d.bootstrap.Seeded()
	}
	return nil
}

// outOfSpace reports whether a write failed because the disk is full.
func outOfSpace(err error) bool {
	var status apierrors.APIStatus
	return errors.Is(err, kv.ErrNoSpace) || errors.As(err, &status) && status.Status().Code == http.StatusInsufficientStorage
}

// isUnavailable reports whether an error means that the store temporarily does not accept requests, for example
// during an election of etcd.
func isUnavailable(err error) bool {
	return errors.Is(err, kv.ErrUnavailable) || apierrors.IsServiceUnavailable(err)
}
