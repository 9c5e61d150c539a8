// Package storagemigration performs StorageVersionMigrations, like kube-controller-manager's
// storage-version-migrator-controller. A migration rewrites all objects of a resource, so that they are stored
// in the storage version of the resource and encrypted with the newest key.
package storagemigration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage"
)

const (
	// Name is the name of the controller and of its service account.
	Name = "storage-version-migrator-controller"
	// workers is the maximum number of concurrent migrations.
	workers = 5
	// resourceTimeout is the time after which a migration fails if its resource does not exist.
	resourceTimeout = time.Minute

	runningReason   = "StorageVersionMigrationInProgress"
	succeededReason = "StorageVersionMigrationSucceeded"
	failedReason    = "StorageVersionMigrationFailed"
)

// Config configures a Migrator. All fields except QueueMetrics are required.
type Config struct {
	// Prefix is the prefix of all keys, such as "/registry".
	Prefix string
	// Storage reads StorageVersionMigrations without a watch cache.
	Storage storage.Interface
	// FindResource returns a resource whose objects this server stores, or false if there is no such resource.
	FindResource func(schema.GroupResource) (changes.Resource, bool)
	// Access reads and writes objects. The controller replaces the user of Access with its own service account.
	Access *loopback.Access
	Logger *slog.Logger
	// QueueMetrics records the metrics of the work queue; nil disables them.
	QueueMetrics *work.Metrics
}

// Migrator implements storage-version-migrator-controller. It starts no goroutine before Start.
type Migrator struct {
	config      Config
	access      *loopback.Access
	migrations  *loopback.Client[*migrationv1.StorageVersionMigration]
	definitions *loopback.Client[*apiextensionsv1.CustomResourceDefinition]
}

// Registration returns the registration of the controller. The controller is disabled if
// StorageVersionMigrations are not served.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		resource := migrationv1.Resource("storageversionmigrations")
		if _, found := d.Objects.Resources.ByName(resource); !found {
			return nil, nil
		}
		stored, err := d.OpenStorage(resource)
		if err != nil {
			return nil, err
		}
		return New(Config{
			Prefix: d.Objects.Prefix, Storage: stored, FindResource: d.Objects.Resources.ByName, Access: d.Access, Logger: d.Logger, QueueMetrics: d.QueueMetrics,
		}), nil
	}}
}

// New creates the controller without starting it.
func New(config Config) *Migrator {
	access := config.Access.AsController(Name)
	return &Migrator{
		config: config, access: access,
		migrations:  loopback.For[*migrationv1.StorageVersionMigration](access, migrationv1.SchemeGroupVersion.WithResource("storageversionmigrations")),
		definitions: loopback.For[*apiextensionsv1.CustomResourceDefinition](access, apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")),
	}
}

// Start implements controllers.Controller.
func (m *Migrator) Start(ctx context.Context) (changes.Subscriber, func()) {
	queue := work.New(ctx, work.Config[string]{Name: Name, Workers: workers, Sync: m.sync, Logger: m.config.Logger, Metrics: m.config.QueueMetrics})
	return &subscriber{queue}, queue.Close
}

// subscriber enqueues changed migrations by name.
type subscriber struct{ queue *work.Queue[string] }

// Reset implements changes.Subscriber.
func (*subscriber) Reset() {}

// Synced implements changes.Subscriber.
func (*subscriber) Synced() {}

// Changed implements changes.Subscriber.
func (s *subscriber) Changed(c *changes.Change) {
	if c.Path == "storageversionmigrations" && c.Value != nil {
		s.queue.Add(c.Name)
	}
}

// sync performs a migration that is not completed. If a migration is interrupted, it starts again, but objects
// that were already rewritten are not written again.
func (m *Migrator) sync(ctx context.Context, name string) error {
	migration, err := m.get(ctx, name)
	if err != nil || migration == nil || isCompleted(migration) {
		return err
	}
	of := schema.GroupResource{Group: migration.Spec.Resource.Group, Resource: migration.Spec.Resource.Resource}
	resource, ok := m.config.FindResource(of)
	if !ok {
		if left := simulation.From(ctx).Until(migration.CreationTimestamp.Add(resourceTimeout)); left > 0 {
			return &work.RetryError{After: min(left, time.Second), Err: fmt.Errorf("migrate %s: the resource does not exist yet", of)}
		}
		return m.setCompleted(ctx, migration, errors.New("unable to obtain GVR from discovery"))
	}
	if err := m.setRunning(ctx, migration, resource); err != nil {
		return err
	}
	err = m.migrate(ctx, resource)
	if isTemporary(err) || ctx.Err() != nil {
		return err
	}
	return m.setCompleted(ctx, migration, err)
}

// get returns a stored migration, or nil if it does not exist.
func (m *Migrator) get(ctx context.Context, name string) (*migrationv1.StorageVersionMigration, error) {
	return storage.FindAs[*migrationv1.StorageVersionMigration](ctx, m.config.Storage, types.NamespacedName{Name: name})
}

func isCompleted(migration *migrationv1.StorageVersionMigration) bool {
	return meta.IsStatusConditionTrue(migration.Status.Conditions, string(migrationv1.MigrationSucceeded)) ||
		meta.IsStatusConditionTrue(migration.Status.Conditions, string(migrationv1.MigrationFailed))
}

// setRunning sets the Running condition. It also records the resource version up to which objects are migrated.
func (m *Migrator) setRunning(ctx context.Context, migration *migrationv1.StorageVersionMigration, resource changes.Resource) error {
	revision, err := resource.Backend.CurrentRevision(ctx)
	if err != nil {
		return err
	}
	return m.update(ctx, migration, func(status *migrationv1.StorageVersionMigrationStatus) {
		if status.ResourceVersion == "" {
			status.ResourceVersion = strconv.FormatInt(int64(revision), 10)
		}
		setCondition(status, migrationv1.MigrationRunning, metav1.ConditionTrue, runningReason, "")
	})
}

// setCompleted sets the Succeeded condition, or the Failed condition if fault is not nil.
func (m *Migrator) setCompleted(ctx context.Context, migration *migrationv1.StorageVersionMigration, fault error) error {
	return m.update(ctx, migration, func(status *migrationv1.StorageVersionMigrationStatus) {
		if running := meta.FindStatusCondition(status.Conditions, string(migrationv1.MigrationRunning)); running != nil {
			setCondition(status, migrationv1.MigrationRunning, metav1.ConditionFalse, running.Reason, running.Message)
		}
		if fault != nil {
			setCondition(status, migrationv1.MigrationFailed, metav1.ConditionTrue, failedReason, "migration encountered unhandled error: "+fault.Error())
			return
		}
		setCondition(status, migrationv1.MigrationSucceeded, metav1.ConditionTrue, succeededReason, "")
	})
}

func setCondition(status *migrationv1.StorageVersionMigrationStatus, kind migrationv1.MigrationConditionType, is metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: string(kind), Status: is, Reason: reason, Message: message})
}

// errReplaced is returned if another migration with the same name has replaced the migration.
var errReplaced = errors.New("another migration has the same name")

// update updates the status of a migration. It does nothing if the migration was deleted or is
// completed.
func (m *Migrator) update(ctx context.Context, migration *migrationv1.StorageVersionMigration, change func(*migrationv1.StorageVersionMigrationStatus)) error {
	_, err := m.migrations.Subresource("status").Update(ctx, types.NamespacedName{Name: migration.Name}, func(current *migrationv1.StorageVersionMigration) error {
		if current.UID != migration.UID {
			return errReplaced
		}
		if !isCompleted(current) {
			change(&current.Status)
		}
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update the status of the migration %s: %w", migration.Name, err)
	}
	return nil
}

// isTemporary reports whether a migration must be retried after err.
func isTemporary(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || errors.Is(err, errBackend)
}
