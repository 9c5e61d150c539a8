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
	// Name is that of the controller, and account its service account.
	Name    = "storageversion-garbage-collector-controller"
	account = "storage-version-garbage-collector"
)

// CollectorConfig configures a Collector. All fields except Queues are required.
type CollectorConfig struct {
	// Versions and Leases are the stored ones, past the watch cache.
	Versions, Leases storage.Interface
	// Identities selects the leases of kube-system that are the identities of servers.
	Identities labels.Selector
	// Access is to the control plane; its user is replaced by the controller's.
	Access *loopback.Access
	Logger *slog.Logger
	// Queues are the metrics of the work queue; nil disables them.
	Queues *work.Metrics
}

// Collector is the controller.
type Collector struct {
	config CollectorConfig
	writer writer
}

// Registration returns the registration of the controller. It has no work if storage versions are
// not reported.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		if !d.ReportsStorageVersions {
			return nil, nil
		}
		versions, err := d.Stored(Resource().GroupResource())
		if err != nil {
			return nil, err
		}
		leases, err := d.Stored(coordinationv1.Resource("leases"))
		if err != nil {
			return nil, err
		}
		return NewCollector(CollectorConfig{
			Versions: versions, Leases: leases, Identities: d.ServerIdentities, Access: d.Access, Logger: d.Logger,
		}), nil
	}}
}

// NewCollector returns a controller that is not started.
func NewCollector(config CollectorConfig) *Collector {
	return &Collector{config: config, writer: newWriter(config.Access.AsController(account))}
}

// all is the key of the queue for all StorageVersions; others are names.
const all = ""

// Start implements controllers.Controller.
func (c *Collector) Start(ctx context.Context) (changes.Subscriber, func()) {
	queue := work.New(ctx, work.Config[string]{Name: Name, Workers: 1, Do: c.sync, Logger: c.config.Logger, Metrics: c.config.Queues})
	return &subscriber{queue}, queue.Close
}

// grace is the time that a restarted server has to replace its lease.
const grace = 2 * time.Second

// subscriber enqueues changed StorageVersions, and all of them after the deletion of a lease that
// could be a server's.
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
		s.queue.AddAfter(all, grace)
	}
}

// sync looks at one StorageVersion, or at all.
func (c *Collector) sync(ctx context.Context, name string) error {
	if name != all {
		v, err := storage.FindAs[*internalv1alpha1.StorageVersion](ctx, c.config.Versions, types.NamespacedName{Name: name})
		if err != nil || v == nil {
			return err
		}
		return c.collect(ctx, v)
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
			err = c.collect(ctx, v)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// collect removes the entries of servers without an identity lease.
func (c *Collector) collect(ctx context.Context, v *internalv1alpha1.StorageVersion) error {
	gone := map[string]bool{}
	for i := range v.Status.StorageVersions {
		id := v.Status.StorageVersions[i].APIServerID
		there, err := c.exists(ctx, id)
		if err != nil {
			return err // kube-controller-manager treats the server as removed
		}
		if !there {
			gone[id] = true
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return c.writer.drop(ctx, v.Name, func(id string) bool { return gone[id] })
}

// exists reports whether a server has an identity lease.
func (c *Collector) exists(ctx context.Context, id string) (bool, error) {
	lease, err := storage.FindAs[*coordinationv1.Lease](ctx, c.config.Leases, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: id})
	return lease != nil && c.config.Identities.Matches(labels.Set(lease.GetLabels())), err
}
