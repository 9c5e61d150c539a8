package storageversions

import (
	"context"
	"errors"
	"log/slog"
	"time"

	internalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

const (
	// Name is the name of the controller. account is the name of its service account.
	Name    = "storageversion-garbage-collector-controller"
	account = "storage-version-garbage-collector"
)

// CollectorConfig configures a Collector. All fields except QueueMetrics are required.
type CollectorConfig struct {
	// Versions and Leases read StorageVersions and Leases without a watch cache.
	Versions, Leases storage.Interface
	// Identities selects the leases in kube-system that represent running servers.
	Identities labels.Selector
	// Access reads and writes objects. The controller replaces the user of Access with its own service account.
	Access *loopback.Access
	Logger *slog.Logger
	// QueueMetrics records the metrics of the work queue; nil disables them.
	QueueMetrics *work.Metrics
}

// Collector implements storageversion-garbage-collector-controller. It starts no goroutine before
// Start.
type Collector struct {
	config CollectorConfig
	writer writer
}

// Registration returns the registration of the controller. The controller is disabled if servers do not report
// storage versions.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		if !d.ReportsStorageVersions {
			return nil, nil
		}
		versions, err := d.OpenStorage(Resource().GroupResource())
		if err != nil {
			return nil, err
		}
		leases, err := d.OpenStorage(coordinationv1.Resource("leases"))
		if err != nil {
			return nil, err
		}
		return NewCollector(CollectorConfig{
			Versions: versions, Leases: leases, Identities: d.ServerIdentities, Access: d.Access, Logger: d.Logger, QueueMetrics: d.QueueMetrics,
		}), nil
	}}
}

// NewCollector creates the controller without starting it.
func NewCollector(config CollectorConfig) *Collector {
	return &Collector{config: config, writer: newWriter(config.Access.AsController(account))}
}

// allVersions is the queue key for all StorageVersions. All other keys are names of StorageVersions.
const allVersions = ""

// Start implements controllers.Controller.
func (c *Collector) Start(ctx context.Context) (changes.Subscriber, func()) {
	queue := work.New(ctx, work.Config[string]{Name: Name, Workers: 1, Sync: c.sync, Logger: c.config.Logger, Metrics: c.config.QueueMetrics})
	return &subscriber{queue}, queue.Close
}

// leaseGrace is the time within which a restarted server must create its lease again.
const leaseGrace = 2 * time.Second

// subscriber enqueues changed StorageVersions, and allVersions after the deletion of a lease in
// kube-system.
type subscriber struct{ queue *work.Queue[string] }

// Reset implements changes.Subscriber.
func (*subscriber) Reset() {}

// Synced implements changes.Subscriber.
func (*subscriber) Synced() {}

// Changed implements changes.Subscriber.
func (s *subscriber) Changed(c *changes.Change) {
	switch {
	case c.Path == Resource().Resource && c.Value != nil:
		s.queue.Add(c.Name)
	case c.Path == "leases" && c.Namespace == metav1.NamespaceSystem && c.Value == nil:
		s.queue.AddAfter(allVersions, leaseGrace)
	}
}

// sync removes the entries of removed servers from one StorageVersion, or from all if name is allVersions.
func (c *Collector) sync(ctx context.Context, name string) error {
	if name != allVersions {
		v, err := storage.FindAs[*internalv1alpha1.StorageVersion](ctx, c.config.Versions, types.NamespacedName{Name: name})
		if err != nil || v == nil {
			return err
		}
		return c.removeStaleEntries(ctx, v)
	}
	list, err := c.config.Versions.List(ctx, "", rest.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		v, err := codec.SharedAs[*internalv1alpha1.StorageVersion](record)
		if err == nil {
			err = c.removeStaleEntries(ctx, v)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removeStaleEntries removes the entries of servers that have no identity lease.
func (c *Collector) removeStaleEntries(ctx context.Context, v *internalv1alpha1.StorageVersion) error {
	stale := map[string]bool{}
	for i := range v.Status.StorageVersions {
		id := v.Status.StorageVersions[i].APIServerID
		exists, err := c.hasIdentityLease(ctx, id)
		if err != nil {
			return err // kube-controller-manager would treat the server as removed
		}
		if !exists {
			stale[id] = true
		}
	}
	if len(stale) == 0 {
		return nil
	}
	return c.writer.removeServers(ctx, v.Name, func(id string) bool { return stale[id] })
}

// hasIdentityLease reports whether a server has an identity lease.
func (c *Collector) hasIdentityLease(ctx context.Context, id string) (bool, error) {
	lease, err := storage.FindAs[*coordinationv1.Lease](ctx, c.config.Leases, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: id})
	return lease != nil && c.config.Identities.Matches(labels.Set(lease.GetLabels())), err
}
