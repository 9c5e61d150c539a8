// Package ttlafterfinished deletes Jobs when ttlSecondsAfterFinished seconds have passed since they finished,
// like kube-controller-manager's ttl-after-finished-controller.
package ttlafterfinished

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage"
)

const (
	// Name is the name of the controller. account is the name of its service account.
	Name    = "ttl-after-finished-controller"
	account = "ttl-after-finished-controller"
	workers = 5
)

// Config configures a Controller. All fields except QueueMetrics are required.
type Config struct {
	// Storage reads Jobs without a watch cache.
	Storage storage.Interface
	// Access reads and writes objects. The controller replaces the user of Access with its own service account.
	Access *loopback.Access
	Logger *slog.Logger
	// QueueMetrics records the metrics of the work queue; nil disables them.
	QueueMetrics *work.Metrics
}

// Controller implements ttl-after-finished-controller. It starts no goroutine before Start.
type Controller struct {
	config Config
	jobs   *loopback.Client[*batchv1.Job]
}

// Registration returns the registration of the controller.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		stored, err := d.OpenStorage(batchv1.Resource("jobs"))
		if err != nil {
			return nil, err
		}
		return New(Config{Storage: stored, Access: d.Access, Logger: d.Logger, QueueMetrics: d.QueueMetrics}), nil
	}}
}

// New creates the controller without starting it.
func New(config Config) *Controller {
	return &Controller{config: config, jobs: loopback.For[*batchv1.Job](config.Access.AsController(account), batchv1.SchemeGroupVersion.WithResource("jobs"))}
}

// Start implements controllers.Controller.
func (c *Controller) Start(ctx context.Context) (changes.Subscriber, func()) {
	queue := work.New(ctx, work.Config[types.NamespacedName]{Name: Name, Workers: workers, Sync: c.sync, Logger: c.config.Logger, Metrics: c.config.QueueMetrics})
	return &subscriber{queue}, queue.Close
}

// subscriber enqueues changed Jobs by name.
type subscriber struct {
	queue *work.Queue[types.NamespacedName]
}

// Reset implements changes.Subscriber.
func (*subscriber) Reset() {}

// Synced implements changes.Subscriber.
func (*subscriber) Synced() {}

// Changed implements changes.Subscriber.
func (s *subscriber) Changed(c *changes.Change) {
	if c.Path == "jobs" && c.Value != nil {
		s.queue.Add(types.NamespacedName{Namespace: c.Namespace, Name: c.Name})
	}
}

// sync deletes an expired Job, or requeues the key at the expiration time.
func (c *Controller) sync(ctx context.Context, name types.NamespacedName) error {
	job, err := storage.FindAs[*batchv1.Job](ctx, c.config.Storage, name)
	if err != nil || job == nil {
		return err
	}
	ends, ok := expiry(job)
	if !ok {
		return nil
	}
	if err := work.RequeueUntil(ctx, ends); err != nil {
		return err
	}
	foreground := metav1.DeletePropagationForeground
	err = c.jobs.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &job.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the finished Job %s: %w", name, err)
	}
	return nil
}

// expiry returns the time at which a Job is to be deleted. ok is false if the Job has no TTL, is not finished,
// has no completion time, or is already being deleted.
func expiry(job *batchv1.Job) (at time.Time, ok bool) {
	ttl := job.Spec.TTLSecondsAfterFinished
	if ttl == nil || job.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Add(time.Duration(*ttl) * time.Second), !c.LastTransitionTime.IsZero()
		}
	}
	return time.Time{}, false
}
