// Package everynamespace is what controllers have in common that keep an object in every
// namespace: each namespace that is not going away is looked at when it changes, and when
// its object does.
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
	// Keep sees to the object of a namespace that is active, as far as is known. An error
	// has it called again; that the namespace is gone, or going away, is none.
	Keep   func(ctx context.Context, namespace string) error
	Access *loopback.Access
	Logger *slog.Logger
	// Queues are the metrics of the work queue; nil: none.
	Queues *work.Metrics
}

// Begin returns the subscriber that does the work until ctx ends, and what waits for
// its end.
func Begin(ctx context.Context, config Config) (changes.Subscriber, func()) {
	s := &subscriber{config: config, namespaces: loopback.For[*corev1.Namespace](config.Access, corev1.SchemeGroupVersion.WithResource("namespaces"))}
	s.queue = work.New(ctx, work.Config[string]{Name: config.Name, Workers: workers, Do: s.sync, Logger: config.Logger, Metrics: config.Queues})
	return s, s.queue.Close
}

// subscriber queues the namespaces whose object may not be as it should be.
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
