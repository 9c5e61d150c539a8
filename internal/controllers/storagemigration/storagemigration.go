// Package storagemigration performs StorageVersionMigrations, like kube-controller-manager's
// storage-version-migrator-controller: it rewrites all objects of a resource, so that they are
// stored in its storage version and encrypted with the newest key.
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
	// Name is that of the controller, and of its service account.
	Name = "storage-version-migrator-controller"
	// workers is how many migrations are under way at a time.
	workers = 5
	// patience is how long a migration waits for a missing resource.
	patience = time.Minute

	runningReason   = "StorageVersionMigrationInProgress"
	succeededReason = "StorageVersionMigrationSucceeded"
	failedReason    = "StorageVersionMigrationFailed"
)

// Config configures a Migrator. All fields except Queues are required.
type Config struct {
	// Prefix of all keys, such as "/registry".
	Prefix string
	// Stored are the stored migrations, past the watch cache.
	Stored storage.Interface
	// Find returns a resource with stored objects, or false if this server does not have it.
	Find func(schema.GroupResource) (changes.Resource, bool)
	// Access is to the control plane; its user is replaced by the controller's.
	Access *loopback.Access
	Logger *slog.Logger
	// Queues are the metrics of the work queue; nil disables them.
	Queues *work.Metrics
}

// Migrator is the controller.
type Migrator struct {
	config      Config
	access      *loopback.Access
	migrations  *loopback.Client[*migrationv1.StorageVersionMigration]
	definitions *loopback.Client[*apiextensionsv1.CustomResourceDefinition]
}

// Registration returns the registration of the controller. It has no work if migrations are not
// served.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		resource := migrationv1.Resource("storageversionmigrations")
		if _, found := d.Objects.Resources.ByName(resource); !found {
			return nil, nil
		}
		stored, err := d.Stored(resource)
		if err != nil {
			return nil, err
		}
		return New(Config{
			Prefix: d.Objects.Prefix, Stored: stored, Find: d.Objects.Resources.ByName, Access: d.Access, Logger: d.Logger, Queues: d.Queues,
		}), nil
	}}
}

// New returns a controller that is not started.
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
	queue := work.New(ctx, work.Config[string]{Name: Name, Workers: workers, Do: m.sync, Logger: m.config.Logger, Metrics: m.config.Queues})
	return &subscriber{queue}, queue.Close
}

// subscriber queues the migrations that change.
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

// sync performs a migration that has not ended. An interrupted migration starts again; objects that
// are already rewritten are not written again.
func (m *Migrator) sync(ctx context.Context, name string) error {
	migration, err := m.get(ctx, name)
	if err != nil || migration == nil || hasEnded(migration) {
		return err
	}
	of := schema.GroupResource{Group: migration.Spec.Resource.Group, Resource: migration.Spec.Resource.Resource}
	resource, ok := m.config.Find(of)
	if !ok {
		if left := simulation.From(ctx).Until(migration.CreationTimestamp.Add(patience)); left > 0 {
			return &work.LaterError{After: min(left, time.Second), Err: fmt.Errorf("%s is to be migrated, and there is no such resource yet", of)}
		}
		return m.end(ctx, migration, errors.New("unable to obtain GVR from discovery"))
	}
	if err := m.begin(ctx, migration, resource); err != nil {
		return err
	}
	err = m.migrate(ctx, resource)
	if isPassing(err) || ctx.Err() != nil {
		return err
	}
	return m.end(ctx, migration, err)
}

// get returns a stored migration, or nil if it does not exist.
func (m *Migrator) get(ctx context.Context, name string) (*migrationv1.StorageVersionMigration, error) {
	return storage.FindAs[*migrationv1.StorageVersionMigration](ctx, m.config.Stored, types.NamespacedName{Name: name})
}

func hasEnded(migration *migrationv1.StorageVersionMigration) bool {
	return meta.IsStatusConditionTrue(migration.Status.Conditions, string(migrationv1.MigrationSucceeded)) ||
		meta.IsStatusConditionTrue(migration.Status.Conditions, string(migrationv1.MigrationFailed))
}

// begin notes that a migration runs, and up to which resource version objects are migrated.
func (m *Migrator) begin(ctx context.Context, migration *migrationv1.StorageVersionMigration, resource changes.Resource) error {
	revision, err := resource.Backend.CurrentRevision(ctx)
	if err != nil {
		return err
	}
	return m.update(ctx, migration, func(status *migrationv1.StorageVersionMigrationStatus) {
		if status.ResourceVersion == "" {
			status.ResourceVersion = strconv.FormatInt(int64(revision), 10)
		}
		set(status, migrationv1.MigrationRunning, metav1.ConditionTrue, runningReason, "")
	})
}

// end notes how a migration has ended.
func (m *Migrator) end(ctx context.Context, migration *migrationv1.StorageVersionMigration, fault error) error {
	return m.update(ctx, migration, func(status *migrationv1.StorageVersionMigrationStatus) {
		if running := meta.FindStatusCondition(status.Conditions, string(migrationv1.MigrationRunning)); running != nil {
			set(status, migrationv1.MigrationRunning, metav1.ConditionFalse, running.Reason, running.Message)
		}
		if fault != nil {
			set(status, migrationv1.MigrationFailed, metav1.ConditionTrue, failedReason, "migration encountered unhandled error: "+fault.Error())
			return
		}
		set(status, migrationv1.MigrationSucceeded, metav1.ConditionTrue, succeededReason, "")
	})
}

func set(status *migrationv1.StorageVersionMigrationStatus, kind migrationv1.MigrationConditionType, is metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: string(kind), Status: is, Reason: reason, Message: message})
}

// errOther: the migration was replaced by another one of the same name, which will be processed.
var errOther = errors.New("it is another migration")

// update updates the status of a migration, unless it is deleted or has ended.
func (m *Migrator) update(ctx context.Context, migration *migrationv1.StorageVersionMigration, change func(*migrationv1.StorageVersionMigrationStatus)) error {
	_, err := m.migrations.Subresource("status").Update(ctx, types.NamespacedName{Name: migration.Name}, func(current *migrationv1.StorageVersionMigration) error {
		if current.UID != migration.UID {
			return errOther
		}
		if !hasEnded(current) {
			change(&current.Status)
		}
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update the status of the migration %s: %w", migration.Name, err)
	}
	return nil
}

// isPassing reports whether an error is temporary.
func isPassing(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || errors.Is(err, errBackend)
}
