// Package everynamespace implements controllers that maintain one object in every active namespace.
// It enqueues a namespace when the namespace or its object changes.
package everynamespace

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
)

// workers is the number of namespaces that are processed concurrently.
const workers = 16

// Config configures a controller. All fields except QueueMetrics are required.
type Config struct {
	// Name is the name of the controller.
	Name string
	// IsRelevant reports whether a change affects an object that the controller maintains. It must
	// not block.
	IsRelevant func(c *changes.Change) bool
	// Reconcile creates or corrects the object in a namespace. It is called concurrently for different
	// namespaces. It is retried after an error, unless the error reports that the namespace is deleted or
	// terminating.
	Reconcile func(ctx context.Context, namespace string) error
	Access    *loopback.Access
	Logger    *slog.Logger
	// QueueMetrics records the metrics of the work queue; nil disables them.
	QueueMetrics *work.Metrics
}

// Start starts a controller, as described in controllers.Controller.
func Start(ctx context.Context, config Config) (changes.Subscriber, func()) {
	s := &subscriber{config: config, namespaces: loopback.For[*corev1.Namespace](config.Access, corev1.SchemeGroupVersion.WithResource("namespaces"))}
	s.queue = work.New(ctx, work.Config[string]{Name: config.Name, Workers: workers, Sync: s.sync, Logger: config.Logger, Metrics: config.QueueMetrics})
	return s, s.queue.Close
}

// subscriber enqueues the namespaces in which the object may be missing or outdated.
type subscriber struct {
	config     Config
	namespaces *loopback.Client[*corev1.Namespace]
	queue      *work.Queue[string]
}

// Reset implements changes.Subscriber.
func (*subscriber) Reset() {}

// Synced implements changes.Subscriber.
func (*subscriber) Synced() {}

// Changed implements changes.Subscriber.
func (s *subscriber) Changed(c *changes.Change) {
	switch {
	case c.Path == "namespaces" && c.Value != nil:
		s.queue.Add(c.Name)
	case s.config.IsRelevant(c):
		s.queue.Add(c.Namespace)
	}
}

// sync reconciles the object in a namespace if the namespace is active.
func (s *subscriber) sync(ctx context.Context, namespace string) error {
	ns, err := s.namespaces.Get(ctx, types.NamespacedName{Name: namespace})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case ns.Status.Phase != corev1.NamespaceActive:
		return nil
	}
	err = s.config.Reconcile(ctx, namespace)
	if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}
