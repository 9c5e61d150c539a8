// Package ttlafterfinished deletes jobs some time after they have finished, where they
// ask for that, as kube-controller-manager's ttl-after-finished-controller does.
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
	// Name is that of the controller, and account its service account.
	Name    = "ttl-after-finished-controller"
	account = "ttl-after-finished-controller"
	workers = 5
)

// Config configures a Controller. All fields except Queues are required.
type Config struct {
	// Stored are the stored Jobs, past the watch cache.
	Stored storage.Interface
	// Access is to the control plane; its user is replaced by the controller's.
	Access *loopback.Access
	Logger *slog.Logger
	// Queues are the metrics of the work queue; nil disables them.
	Queues *work.Metrics
}

// Controller is the controller.
type Controller struct {
	config Config
	jobs   *loopback.Client[*batchv1.Job]
}

// Registration returns the registration of the controller.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		stored, err := d.Stored(batchv1.Resource("jobs"))
		if err != nil {
			return nil, err
		}
		return New(Config{Stored: stored, Access: d.Access, Logger: d.Logger, Queues: d.Queues}), nil
	}}
}

// New returns a controller that is not started.
func New(config Config) *Controller {
	return &Controller{config: config, jobs: loopback.For[*batchv1.Job](config.Access.AsController(account), batchv1.SchemeGroupVersion.WithResource("jobs"))}
}

// Start implements controllers.Controller.
func (c *Controller) Start(ctx context.Context) (changes.Subscriber, func()) {
	queue := work.New(ctx, work.Config[types.NamespacedName]{Name: Name, Workers: workers, Do: c.sync, Logger: c.config.Logger, Metrics: c.config.Queues})
	return &subscriber{queue}, queue.Close
}

// subscriber queues the jobs that change.
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

// sync deletes an expired job, or schedules another check at its expiry.
func (c *Controller) sync(ctx context.Context, name types.NamespacedName) error {
	job, err := storage.FindAs[*batchv1.Job](ctx, c.config.Stored, name)
	if err != nil || job == nil {
		return err
	}
	ends, ok := expiry(job)
	if !ok {
		return nil
	}
	if err := work.Due(ctx, ends); err != nil {
		return err
	}
	foreground := metav1.DeletePropagationForeground
	err = c.jobs.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &job.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete job %s, which has finished: %w", name, err)
	}
	return nil
}

// expiry returns when a job is to be deleted; false: it is not, or not yet known.
func expiry(job *batchv1.Job) (time.Time, bool) {
	ttl := job.Spec.TTLSecondsAfterFinished
	if ttl == nil || job.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Add(time.Duration(*ttl) * time.Second), true
		}
	}
	return time.Time{}, false
}
