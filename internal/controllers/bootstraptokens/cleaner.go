package bootstraptokens

import (
	"context"
	"fmt"

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

// Cleaner deletes expired bootstrap tokens. It starts no goroutine before Start.
type Cleaner struct {
	config  Config
	secrets *loopback.Client[*corev1.Secret]
}

// CleanerRegistration returns the registration of token-cleaner-controller.
func CleanerRegistration() controllers.Registration {
	return controllers.Registration{Name: CleanerName, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		config, err := newConfig(d)
		if err != nil {
			return nil, err
		}
		return NewCleaner(config), nil
	}}
}

// NewCleaner creates the controller without starting it.
func NewCleaner(config Config) *Cleaner {
	return &Cleaner{config: config, secrets: loopback.For[*corev1.Secret](config.Access.AsController("token-cleaner"), corev1.SchemeGroupVersion.WithResource("secrets"))}
}

// Start implements controllers.Controller.
func (c *Cleaner) Start(ctx context.Context) (changes.Subscriber, func()) {
	queue := work.New(ctx, work.Config[string]{Name: CleanerName, Workers: 1, Sync: c.sync, Logger: c.config.Logger, Metrics: c.config.QueueMetrics})
	return &cleanerSubscriber{queue}, queue.Close
}

// cleanerSubscriber enqueues changed Secrets by name.
type cleanerSubscriber struct{ queue *work.Queue[string] }

// Reset implements changes.Subscriber.
func (*cleanerSubscriber) Reset() {}

// Synced implements changes.Subscriber.
func (*cleanerSubscriber) Synced() {}

// Changed implements changes.Subscriber.
func (s *cleanerSubscriber) Changed(c *changes.Change) {
	if mayBeToken(c) && c.Value != nil {
		s.queue.Add(c.Name)
	}
}

// sync deletes an expired token, or requeues the key at the expiration time.
func (c *Cleaner) sync(ctx context.Context, name string) error {
	key := types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: name}
	secret, err := storage.FindAs[*corev1.Secret](ctx, c.config.Secrets, key)
	if err != nil || secret == nil || secret.Type != tokenType {
		return err
	}
	ends := expiration(secret)
	if ends.IsZero() {
		return nil
	}
	if err := work.RequeueUntil(ctx, ends); err != nil {
		return err
	}
	err = c.secrets.Delete(ctx, key, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the bootstrap token %s, which has expired: %w", name, err)
	}
	return nil
}
