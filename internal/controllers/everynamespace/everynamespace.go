// Package everynamespace is the common part of controllers that maintain an object in every
// namespace: a change of an active namespace, or of its object, enqueues it.
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

// workers is how many namespaces are looked at at a time.
const workers = 16

// Config configures the work. All fields except Queues are required.
type Config struct {
	// Name is the controller's.
	Name string
	// Matters reports whether a change is one of the object that may have to be undone.
	Matters func(c *changes.Change) bool
	// Keep maintains the object of a namespace that is probably active. An error retries; a deleted
	// or terminating namespace is not an error.
	Keep   func(ctx context.Context, namespace string) error
	Access *loopback.Access
	Logger *slog.Logger
	// Queues are the metrics of the work queue; may be nil.
	Queues *work.Metrics
}

// Start implements controllers.Controller.
func Start(ctx context.Context, config Config) (changes.Subscriber, func()) {
	s := &subscriber{config: config, namespaces: loopback.For[*corev1.Namespace](config.Access, corev1.SchemeGroupVersion.WithResource("namespaces"))}
	s.queue = work.New(ctx, work.Config[string]{Name: config.Name, Workers: workers, Do: s.sync, Logger: config.Logger, Metrics: config.Queues})
	return s, s.queue.Close
}

// subscriber enqueues namespaces whose object may be missing or outdated.
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
	case s.config.Matters(c):
		s.queue.Add(c.Namespace)
	}
}

// sync sees to the object of a namespace that is not going away.
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
	err = s.config.Keep(ctx, namespace)
	if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}
